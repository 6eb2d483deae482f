"""Two gloo processes must give the update of one: gathered groups, global denominators, no rank's own numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def launch(worker: str, folder: Path, num_processes: int, *arguments: str) -> dict:
    """Run a worker on gloo processes and return what its rank 0 saved."""
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
    return torch.load(folder / "result.pt")


def run(folder: Path, num_processes: int, loss_type: str) -> dict:
    result = launch("one_step.py", folder, num_processes, loss_type)
    metrics = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return {**result, "metrics": metrics}


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
    one, two = (launch("every_rule.py", tmp_path / str(n), n) for n in (1, 2))
    assert (one["world_size"], two["world_size"]) == (1, 2)
    assert set(one["outcomes"]) == set(two["outcomes"]) and len(one["outcomes"]) > 20
    for rule, single in one["outcomes"].items():
        double = two["outcomes"][rule]
        assert torch.equal(double["keep"], single["keep"]), rule
        for name in ("reward", "advantage"):
            torch.testing.assert_close(double[name], single[name], rtol=1e-4, atol=1e-4, equal_nan=True, msg=rule)
