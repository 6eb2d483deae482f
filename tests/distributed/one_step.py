"""Worker of test_two_processes.py: three steps on fixed rollouts; rank 0 saves the weights."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    trained = tiny.trainer(
        folder / "run",
        rollout_func=tiny.fixed_rollouts,
        reward_funcs=[],
        max_steps=3,
        optim="sgd",
        learning_rate=0.1,
        ddp_backend="gloo",
        loss_type=sys.argv[2],
    )
    trained.train()
    if trained.accelerator.is_main_process:
        torch.save(
            {"weights": tiny.weights(trained), "world_size": trained.accelerator.num_processes}, folder / "result.pt"
        )
