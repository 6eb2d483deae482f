"""Two gloo processes must give the update of one: gathered groups, global denominators, no rank's own numbers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def launch(worker: str, folder: Path, num_processes: int, *arguments: str) -> None:
    """Run a worker on gloo processes, to its end."""
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={num_processes}", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(
        [*command, str(HERE / worker), str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def result(worker: str, folder: Path, num_processes: int, *arguments: str) -> dict:
    """What the worker's rank 0 saved."""
    launch(worker, folder, num_processes, *arguments)
    return torch.load(folder / "result.pt")


def run(folder: Path, num_processes: int, loss_type: str) -> dict:
    saved = result("one_step.py", folder, num_processes, loss_type)
    metrics = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return {**saved, "metrics": metrics}


@pytest.mark.parametrize("loss_type", ["grpo", "dapo"])
def test_two_processes_give_the_update_of_one(tmp_path: Path, loss_type: str) -> None:
    one, two = run(tmp_path / "one", 1, loss_type), run(tmp_path / "two", 2, loss_type)
    assert (one["world_size"], two["world_size"]) == (1, 2)
    torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-4, atol=1e-5)
    for single, double in zip(one["metrics"], two["metrics"], strict=True):
        for name in ("sif/eligible_rate", "sif/keep_rate", "sif/winners_per_group", "sif/window_margin", "sif/length"):
            assert double[name] == pytest.approx(single[name]), name
        assert double["sif/certainty_mean"] == pytest.approx(single["sif/certainty_mean"], rel=1e-4)


def test_two_processes_give_the_rewards_of_one_under_every_rule(tmp_path: Path) -> None:
    one, two = (result("every_rule.py", tmp_path / str(n), n) for n in (1, 2))
    assert (one["world_size"], two["world_size"]) == (1, 2)
    assert set(one["outcomes"]) == set(two["outcomes"]) and len(one["outcomes"]) > 20
    for rule, single in one["outcomes"].items():
        double = two["outcomes"][rule]
        assert torch.equal(double["keep"], single["keep"]), rule
        for name in ("reward", "advantage"):
            torch.testing.assert_close(double[name], single[name], rtol=1e-4, atol=1e-4, equal_nan=True, msg=rule)


@pytest.mark.parametrize(
    ("where", "message"), [("classes", "no class"), ("extract", r"LookupError: no letter \(.*failing_reader.py, line")]
)
def test_an_answer_reader_that_fails_on_one_process_stops_both_with_its_message(
    tmp_path: Path, where: str, message: str
) -> None:
    launch("failing_reader.py", tmp_path / "run", 2, where)
    told = [(tmp_path / "run" / f"error-{rank}").read_text() for rank in (0, 1)]
    assert told[0] == told[1] and re.search(f"answers could not be found and compared: {message}", told[0])
