"""`sif study`: arms and seeds one after the other, each as if it ran alone; refused where arms are not comparable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from sif_trainer.cli.main import main

ROOT = Path(__file__).parents[2]
SMALL = {
    "base": "smoke/quickstart",
    "num_prompts": 16,
    "prompts_per_step": 2,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "max_steps": 4,
    "save_steps": 2,
    "num_validation_prompts": 2,
    "num_validation_samples": 1,
    "samples_every": 1,
    "learning_rate": 1e-3,
    "warmup_steps": 0,
    "shown_steps": [2],
    "seeds": [1],
    "arms": {"sif": None, "intuitor": {"feedback": "intuitor"}},
}
TIMES = ("time/", "step_time")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write(tmp_path / "small.yaml")


def write(path: Path, **changes: object) -> Path:
    path.write_text(yaml.safe_dump({**SMALL, **changes}, sort_keys=False))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that `sif study` answers bad input with."""
    assert main(["study", *map(str, arguments)]) == 2
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def records(path: Path) -> list[dict]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.startswith(TIMES)} for line in lines]


def assert_equal_runs(one: Path, other: Path) -> None:
    expected, found = (load_file(path / "last/model.safetensors") for path in (one, other))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert value.equal(found[name]), name
    for name in ("metrics.jsonl", "samples.jsonl", "validation.jsonl"):
        assert records(one / name) == records(other / name), name


def test_a_run_equals_the_same_run_alone_and_a_study_grows(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "study"
    assert main(["study", str(recipe), "--run", str(folder)]) == 0
    page = capsys.readouterr().out
    assert "| arm      | seeds | before | peak (step) | step 2 | final | drop |" in page
    assert "intuitor, seed" not in page  # nothing failed
    assert json.loads((folder / "summary.json").read_text()) == {"num_runs": 2}
    for name in ("table.md", "table.csv", "curves.csv", "study.png"):
        assert (folder / name).stat().st_size > 0, name
    shared = [f"{key}={json.dumps(value)}" for key, value in SMALL.items() if key not in _STUDY_KEYS]
    alone = tmp_path / "alone"
    command = ["train", "smoke/quickstart", *shared, "seed=1", "feedback=intuitor", "--run", str(alone)]
    assert main(command) == 0
    assert_equal_runs(folder / "intuitor/seed1", alone)  # it was the second of the study
    different = load_file(folder / "sif/seed1/last/model.safetensors")
    assert any(not different[name].equal(value) for name, value in load_file(alone / "last/model.safetensors").items())

    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/seed1/*")}
    capsys.readouterr()
    assert main(["study", str(recipe), "seeds=[1, 2]", "only=[sif]", "--run", str(folder)]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "| sif      | 2     |" in capsys.readouterr().out
    write(recipe, arms={"sif": {"beta": 0.1}, "intuitor": {"feedback": "intuitor"}})
    assert "was trained with {}, not {'beta': 0.1}" in refused(capsys, recipe, "--run", folder)


_STUDY_KEYS = {"base", "arms", "seeds", "shown_steps"}


def test_a_failing_arm_is_recorded_and_the_study_goes_on(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first arm's windows need 46 tokens, an answer has 41: it gives up at once.
    arms = {"stops": {"window_size": 10, "max_steps_without_update": 1}, "sif": None}
    folder = tmp_path / "study"
    for count in (1, 2):  # what failed is tried again, what is finished is not
        assert main(["study", str(write(recipe, arms=arms, max_steps=2)), "--run", str(folder)]) == 1
        page = capsys.readouterr().out
        assert "- Not in the tables: stops, seed 1, measured up to step 0; it failed: no response was eligible" in page
        assert "| stops | 0     |" in page and "| sif   | 1     |" in page
        assert not (folder / "summary.json").exists()  # its page says that it has not ended
        failed = [record["arm"] for record in records(folder / "runs.jsonl") if record["failed"]]
        assert failed == ["stops"] * count
    assert len(records(folder / "runs.jsonl")) == 3


def test_a_killed_study_goes_on_where_it_was(recipe: Path, tmp_path: Path) -> None:
    def start(folder: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sif_trainer.cli.main", "study", str(recipe), "--run", str(folder)]
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    write(recipe, max_steps=6, arms={"intuitor": {"feedback": "intuitor"}}, reference="intuitor")
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert main(["study", str(recipe), "--run", str(straight)]) == 0
    process, metrics = start(killed), killed / "intuitor/seed1/metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 3:
        assert process.poll() is None, process.stderr.read()[-3000:]
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()  # returns when the run, which shares the pipes, is gone as well
    assert not (killed / "intuitor/seed1/summary.json").exists()
    process = start(killed)
    assert "going on from" in process.communicate()[1] and process.returncode == 0
    assert_equal_runs(straight / "intuitor/seed1", killed / "intuitor/seed1")


def test_studies_that_cannot_work(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "study"

    def complaint(**changes: object) -> str:
        return refused(capsys, write(recipe, **changes), "--run", folder)

    other = {"feedback": "intuitor"}
    assert "max_steps is 4 and 8; rollouts, steps" in complaint(arms={"sif": {}, "b": {**other, "max_steps": 8}})
    assert "num_generations is 4 and 8" in complaint(arms={"sif": {}, "b": {**other, "num_generations": 8}})
    assert "arm b: unknown key 'feedbak'; did you mean 'feedback'?" in complaint(
        arms={"sif": {}, "b": {"feedbak": "sif"}}
    )
    assert "is no rule" in complaint(arms={"sif": {}, "b": {"feedback": "sfi"}})
    assert "no arm 'sfi'" in complaint(reference="sfi")
    assert "no arm 'top2'" in complaint(tables={"A": ["top2"]})
    assert "names a folder" in complaint(arms={"sif": {}, "../b": other})
    assert "set seeds=[...], not seed" in complaint(seed=3)
    assert "all different" in complaint(seeds=[1, 1])
    assert "name held-out prompts as validation" in complaint(validation=None)
    assert "no recipe 'smoke/quickstrat'" in complaint(base="smoke/quickstrat")
    assert "holds no study yet" in refused(capsys, write(recipe), "--run", folder, "--report")
    assert not folder.exists()
