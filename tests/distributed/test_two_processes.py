"""Two gloo processes must give the update of one: gathered groups, global denominators, no rank's own numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).with_name("one_step.py")


def run(folder: Path, num_processes: int, loss_type: str) -> dict:
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={num_processes}", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(WORKER.parents[2])}
    done = subprocess.run(
        [*command, str(WORKER), str(folder), loss_type], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return {**torch.load(folder / "result.pt"), "metrics": metrics}


@pytest.mark.parametrize("loss_type", ["grpo", "dapo"])
def test_two_processes_give_the_update_of_one(tmp_path: Path, loss_type: str) -> None:
    one, two = run(tmp_path / "one", 1, loss_type), run(tmp_path / "two", 2, loss_type)
    assert (one["world_size"], two["world_size"]) == (1, 2)
    torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-4, atol=1e-5)
    for single, double in zip(one["metrics"], two["metrics"], strict=True):
        for name in ("sif/eligible_rate", "sif/keep_rate", "sif/winners_per_group", "sif/window_margin", "sif/length"):
            assert double[name] == pytest.approx(single[name]), name
        assert double["sif/certainty_mean"] == pytest.approx(single["sif/certainty_mean"], rel=1e-4)
