"""A run that is killed and called again ends where a straight run ends, bit for bit, in the first and later epochs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import tiny
from safetensors.torch import load_file

from sif_trainer.trainer.checkpoints import COMPLETE, last_complete_checkpoint

WORKER = Path(__file__).with_name("resume_worker.py")


def start(folder: Path, num_iterations: int = 1) -> subprocess.Popen:
    paths = os.pathsep.join([str(WORKER.parents[2]), str(WORKER.parent)])
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(folder), str(num_iterations)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, num_iterations: int = 1) -> str:
    process = start(folder, num_iterations)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return errors


def kill_after(folder: Path, num_records: int) -> None:
    process = start(folder)
    metrics = folder / "metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < num_records:
        assert process.poll() is None, process.stderr.read()[-3000:]
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def records(folder: Path, name: str) -> list[dict]:
    lines = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("time/") and k != "step_time"} for line in lines]


def test_killed_and_resumed_equals_straight(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    finish(straight)
    kill_after(killed, 4)  # in the second epoch (three steps each), behind the checkpoints of steps 2 and, perhaps, 4
    kill_after(killed, 8)  # in the third
    assert "going on from" in finish(killed)
    expected, found = load_file(straight / "last/model.safetensors"), load_file(killed / "last/model.safetensors")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert value.equal(found[name]), name
    assert records(killed, "metrics") == records(straight, "metrics")
    assert records(killed, "samples") == records(straight, "samples")


def test_a_half_written_checkpoint_is_passed_over(tmp_path: Path) -> None:
    for step, complete in ((2, True), (10, True), (12, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if complete:
            (tmp_path / f"checkpoint-{step}" / COMPLETE).touch()
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert last_complete_checkpoint(tmp_path / "nothing") is None


def test_a_save_inside_a_generated_batch_is_moved_with_a_message(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="save_steps=10 would save inside a generated batch.*moved to 12"):
        config = tiny.config(tmp_path, num_iterations=4, save_strategy="steps", save_steps=10)
    assert config.save_steps == 12
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert tiny.config(tmp_path, num_iterations=4, save_strategy="steps", save_steps=8).save_steps == 8
