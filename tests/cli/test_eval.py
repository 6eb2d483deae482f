"""`sif eval` as a user types it: flags, recipes, resuming, comparing, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sif_trainer.cli.main import main


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two scripted models, data of two benchmarks and a recipe."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for file, gold in (("gsm8k_test.jsonl", "3"), ("math500.jsonl", "x+1")):
        lines = [{"id": f"p{i}", "problem": f"problem {i}", "answer": gold} for i in range(4)]
        Path("data", file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("weak.json").write_text(json.dumps({"replies": {"problem 1": r"\boxed{3}", "": "no idea"}}))
    Path("strong.json").write_text(json.dumps({"replies": {"": [r"\boxed{3}", r"\boxed{1+x}"]}}))
    Path("mine.yaml").write_text("model: scripted:weak.json\nsuite: gsm8k\ndata_dir: data\nnum_samples: 2\n")
    return tmp_path


def test_flags_and_a_recipe_say_the_same(capsys):
    assert main(["eval", "mine", "--run", "recipe"]) == 0
    table = capsys.readouterr().out
    flags = ["--model", "scripted:weak.json", "--suite", "gsm8k", "--data-dir", "data"]
    assert main(["eval", *flags, "num_samples=2", "--run", "flags"]) == 0
    strip = [line for line in table.splitlines() if line.startswith("|")]
    assert strip == [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert "25.0" in strip[2]
    for name in (
        "results.json",
        "results.md",
        "results.png",
        "samples.jsonl",
        "prompts.jsonl",
        "paper_diff.yaml",
        "summary.json",
    ):
        assert Path("recipe", name).exists()
    assert json.loads(Path("recipe/summary.json").read_text()) == {"gsm8k": 0.25}
    assert "num_samples" in Path("recipe/paper_diff.yaml").read_text()
    assert "temperature" not in Path("recipe/paper_diff.yaml").read_text(), "the default is the paper's"


def test_a_complete_run_shows_its_table_again(capsys):
    assert main(["eval", "mine", "suite=[gsm8k,math500]"]) == 0
    first = capsys.readouterr().out
    Path("weak.json").unlink()
    assert main(["eval", "mine", "suite=[gsm8k,math500]"]) == 0
    assert capsys.readouterr().out == first
    assert Path("runs/eval/mine/samples.jsonl").exists()


def test_overrides_win_and_another_setting_needs_another_folder(capsys):
    assert main(["eval", "mine", "num_samples=1", "temperature=0", "limit=2"]) == 0
    assert "avg@1" in capsys.readouterr().out
    assert len(Path("runs/eval/mine/samples.jsonl").read_text().splitlines()) == 2
    assert main(["eval", "mine", "num_samples=1", "temperature=0", "limit=3"]) == 2
    assert "limit is 2 there, 3 here" in capsys.readouterr().err


def test_a_run_goes_on_with_another_batch_size(capsys):
    main(["eval", "mine", "limit=2"])
    samples = Path("runs/eval/mine/samples.jsonl")
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:1]))
    Path("runs/eval/mine/summary.json").unlink()
    assert main(["eval", "mine", "limit=2", "engine_options={latency: 0.01}"]) == 0
    assert len(samples.read_text().splitlines()) == 4
    assert json.loads(Path("runs/eval/mine/model.json").read_text())["engine_options"] == {"latency": 0.01}


def test_compare_and_export(capsys):
    main(["eval", "mine", "--run", "a"])
    main(["eval", "mine", "model=scripted:strong.json", "--run", "b", "--export", "lm-eval"])
    assert "exported to b/lm_eval/scripted__strong.json" in capsys.readouterr().out
    assert main(["eval", "--compare", "a", "b"]) == 0
    shown = capsys.readouterr().out
    assert "| gsm8k     | 4        | 25.0 | 50.0 | +25.0 [" in shown
    assert "A: scripted:weak.json (a)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "scripted:weak.json"], "suite is missing"),
        (["suite=gsm8k"], "model is missing"),
        (["mine", "suite=gsm8"], "did you mean 'gsm8k'"),
        (["mine", "num_sample=3"], "did you mean 'num_samples'"),
        (["mine", "num_samples=many"], "num_samples must be a whole number"),
        (["mine", "k=[4]"], "k=4 of pass@k cannot be estimated from num_samples=2"),
        (["mine", "--suite", "gsm8k,amc23"], "amc23.jsonl"),
        (["mine", "data_dir=nowhere"], "nowhere/gsm8k_test.jsonl"),
        (["mine", "model=scripted:nothing.json"], "nothing.json"),
        (["mine", "model=warp:9"], "unknown engine 'warp'"),
        (["nobody"], "no recipe 'nobody'"),
        (["--compare", "a", "b"], "holds no finished evaluation"),
        (["mine", "--compare", "a", "b"], "takes two run folders and no settings"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
    assert main(["eval", *arguments]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sif eval: error:")]
    assert message in line


def test_bad_rows_are_named_by_line(capsys):
    with Path("data/gsm8k_test.jsonl").open("a") as file:
        file.write('{"id": "x", "problem": "no answer"}\n')
    assert main(["eval", "mine"]) == 2
    assert "line 5 lacks answer" in capsys.readouterr().err


def test_the_embedded_policy_is_evaluated_out_of_the_box(capsys):
    assert main(["eval", "smoke/evaluate", "limit=4", "num_samples=2", "k=[1,2]"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| cipher")]
    assert row.split("|")[2].strip() == "4"
    assert len(Path("runs/eval/smoke/evaluate/samples.jsonl").read_text().splitlines()) == 8
