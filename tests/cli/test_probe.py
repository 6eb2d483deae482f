"""`sif probe` as a user meets it: verdicts that are known beforehand, a kill, no answers, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sif_trainer.cli.main import main

sys.path.insert(0, str(Path(__file__).parents[1] / "probe"))
import bigram

ROOT = Path(__file__).parents[2]
SURE_IS_RIGHT = {"a": 0.9, "b": 0.9, "c": 0.1, "d": 0.1}
SURE_IS_WRONG = {"a": 0.1, "b": 0.1, "c": 0.9, "d": 0.9}
UNRELATED = {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}


def probe(capsys: pytest.CaptureFixture[str], recipe: object, folder: Path, *overrides: str) -> tuple[dict, str, str]:
    """Summary, page and messages of a probe that must end well."""
    assert main(["probe", str(recipe), *overrides, "--run", str(folder)]) == 0
    captured = capsys.readouterr()
    return json.loads((folder / "summary.json").read_text()), captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that `sif probe` answers bad input with."""
    assert main(["probe", *map(str, arguments)]) == 2
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def test_a_policy_that_is_sure_where_it_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, page, _ = probe(capsys, bigram.recipe(tmp_path, SURE_IS_RIGHT), tmp_path / "run")
    assert found["verdict"]["word"] == "likely to help"
    assert "# Probe\n\n**Likely to help**: what sif pushes up is right more often" in page
    assert found["num_groups"] == 30 and found["rules"]["sif"]["lift"]["low"] > 0
    assert found["rules"]["sif"]["winners"]["value"] > found["rules"]["sif"]["kept"]["value"]
    assert found["auc"]["mean certainty"]["low"] > 0.5 and found["auc"]["window 3"]["low"] > 0.5
    assert found["rules"]["random_reward"]["lift"]["low"] < 0 < found["rules"]["random_reward"]["lift"]["high"]
    assert found["windows"]["suggested"]["min_length"] <= bigram.LENGTH
    for name in ("groups.jsonl", "probe.md", "config.yaml", "manifest.json"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    again, same_page, messages = probe(capsys, tmp_path / "recipe.yaml", tmp_path / "run")
    assert again == found and same_page.endswith(page[page.index("# Probe") :])
    assert "groups" not in messages  # nothing was sampled


def test_a_policy_that_is_sure_where_it_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, page, _ = probe(capsys, bigram.recipe(tmp_path, SURE_IS_WRONG), tmp_path / "run")
    assert found["verdict"]["word"] == "likely to hurt" and "teach the policy its mistakes" in page
    assert found["auc"]["mean certainty"]["high"] < 0.5


def test_a_policy_whose_certainty_has_nothing_to_do_with_being_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = bigram.recipe(tmp_path, UNRELATED, num_prompts=120, num_generations=16, feedback="intuitor")
    found, _, _ = probe(capsys, recipe, tmp_path / "run", "num_probe_prompts=120")
    assert found["verdict"]["word"] == "no information"
    lift = found["rules"]["intuitor"]["lift"]
    assert -0.1 <= lift["low"] < 0 < lift["high"] <= 0.1


def test_a_coin_as_reward_is_never_recommended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = bigram.recipe(tmp_path, SURE_IS_RIGHT, feedback="random_reward")
    found, _, _ = probe(capsys, recipe, tmp_path / "run")
    assert found["verdict"]["word"] in ("no information", "undecided")


def test_the_embedded_world_as_training_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training on it gains (README): the verdict says so beforehand."""
    found, _, _ = probe(capsys, "smoke/quickstart", tmp_path / "run", "num_probe_prompts=12")
    assert found["verdict"]["word"] == "likely to help"
    assert found["rules"]["sif"]["winners"]["value"] > 0.75 > 0.45 > found["accuracy"]["value"]


def test_without_answers_it_says_what_it_cannot_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = bigram.recipe(tmp_path, SURE_IS_RIGHT)
    prompts = tmp_path / "prompts.jsonl"
    rows = [json.loads(line) for line in prompts.read_text().splitlines()]
    prompts.write_text("".join(json.dumps({"problem": row["problem"]}) + "\n" for row in rows))
    found, page, messages = probe(capsys, recipe, tmp_path / "run")
    assert found["verdict"]["word"] == "cannot tell" and found["accuracy"] is None
    assert "answers: none are read, because" in messages and "AUC" not in page
    assert "without reference answers nobody knows" in page
    assert found["agreement"]["lift"] and found["rules"]["majority"]["keep_rate"] == 1
    assert "verifier" in found["left_out"]
    _, page, messages = probe(capsys, recipe, tmp_path / "blind", "monitor=null")
    assert "neither monitor nor validation_rule is set" in messages and "Agreement" not in page
    assert "majority, because it votes by answer: set answer_rule=math" in page


def test_reference_answers_change_nothing_but_what_is_said_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = bigram.recipe(tmp_path, SURE_IS_RIGHT)
    probe(capsys, recipe, tmp_path / "run")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace('"answer": "1"', '"answer": "2"'))
    probe(capsys, recipe, tmp_path / "scrambled")
    votes = []
    for folder in ("run", "scrambled"):
        groups = [json.loads(line) for line in (tmp_path / folder / "groups.jsonl").read_text().splitlines()]
        marks = [response.pop("correct") for group in groups for response in group["responses"]]
        votes.append((groups, marks))
    assert votes[0][0] == votes[1][0]
    assert [1 - mark for mark in votes[0][1]] == votes[1][1]


def test_a_killed_probe_repeats_no_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("num_probe_prompts=12", "num_generations=4", "probe_batch_size=4")
    straight, _, _ = probe(capsys, "smoke/quickstart", tmp_path / "straight", *settings)
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "sif_trainer.cli.main", "probe", "smoke/quickstart", *settings, "--run", str(run)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        file = run / "groups.jsonl"
        while not file.exists() or len(file.read_text().splitlines()) < 3:
            assert process.poll() is None, process.communicate()[1][-3000:]
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    before = file.read_text()
    before = before[: before.rindex("\n") + 1]
    assert not (run / "summary.json").exists()
    resumed, _, _ = probe(capsys, "smoke/quickstart", run, *settings)
    after = file.read_text()
    assert after.startswith(before) and len(after.splitlines()) == 12
    assert len({json.loads(line)["id"] for line in after.splitlines()}) == 12
    assert resumed == straight


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = bigram.recipe(tmp_path, UNRELATED, num_prompts=12)
    prompts = tmp_path / "prompts.jsonl"
    run = ("--run", tmp_path / "run")
    assert "num_probe_prompts=0; it must be 1 or more" in refused(capsys, recipe, "num_probe_prompts=0", *run)
    assert "probe_batch_size=0" in refused(capsys, recipe, "probe_batch_size=0", *run)
    assert "unknown key 'num_probe_prompt'; did you mean" in refused(capsys, recipe, "num_probe_prompt=3", *run)
    assert "needs filter_rate" in refused(capsys, recipe, "feedback=random_filter", *run)
    assert "gate_threshold=-1.0 must" in refused(capsys, recipe, "feedback=variance_gate", "gate_threshold=-1", *run)
    assert "must divide num_generations=8" in refused(capsys, recipe, "feedback=majority", "num_trained=3", *run)
    assert "is no rule" in refused(capsys, recipe, "feedback=nonsense", *run)
    assert "there is no rule 'gsm9k'; did you mean 'gsm8k'?" in refused(capsys, recipe, "monitor=gsm9k", *run)
    blind = (recipe, "monitor=null", *run)
    assert "votes by answer: set answer_rule" in refused(capsys, *blind, "feedback=majority")
    assert "trains on reference answers" in refused(capsys, *blind, "feedback=verifier")
    assert "its teacher is the policy itself" in refused(capsys, recipe, "feedback=co_rewarding_ema", *run)
    assert "every question rephrased" in refused(capsys, recipe, "feedback=co_rewarding", *run)
    assert "min_p=0.1: a probe does not sample" in refused(capsys, recipe, "min_p=0.1", *run)
    assert "no recipe 'smoke/quickstrat'" in refused(capsys, "smoke/quickstrat")
    assert "no row has an answer in column gold" in refused(capsys, recipe, "answer_column=gold", *run)
    prompts.write_text(prompts.read_text().replace('"answer": "1"', '"answer": "one"'))
    line = refused(capsys, recipe, *run)
    assert "the rule 'gsm8k' can read none of the answers" in line and "'one'" in line
    prompts.write_text("")
    assert "no rows" in refused(capsys, recipe, *run)


def test_answers_that_cannot_be_read_are_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = bigram.recipe(tmp_path, SURE_IS_RIGHT, num_prompts=12)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace('"answer": "1"', '"answer": "one"', 2))
    found, _, messages = probe(capsys, recipe, tmp_path / "run")
    assert "answers: 2 of 12 prompts have none that 'gsm8k' can read: 0, 1" in messages
    assert found["num_graded_groups"] == 10 and found["num_groups"] == 12


def test_it_runs_in_one_process(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "a probe runs in one process" in refused(capsys, "smoke/quickstart")
