"""Worker of test_two_processes.py: one step on fixed rollouts under every rule; rank 0 saves rewards and keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
sys.path.insert(0, str(Path(__file__).parents[1] / "feedback"))
import tiny
from batches import OPTIONS

from sif_trainer.feedback.rules import RULES

DRAWN_BY_THE_MODEL = {"co_rewarding_ema"}  # its teacher samples, each process by its own random state


def verdict(completions: list[str], **kwargs: object) -> list[float]:
    return [float(len(text) // 2 % 2) for text in completions]


if __name__ == "__main__":
    folder, outcomes = Path(sys.argv[1]), {}
    for rule in sorted(set(RULES) - DRAWN_BY_THE_MODEL):
        trained = tiny.trainer(
            folder / rule,
            dataset=tiny.pairs() if "paired" in RULES[rule].reads else None,
            rollout_func=tiny.fixed_rollouts,
            reward_funcs=[verdict],
            answers=tiny.FirstLetter(),
            feedback=rule,
            max_steps=1,
            ddp_backend="gloo",
            **OPTIONS.get(rule, {}),
        )
        trained.train()
        outcome = trained._outcome
        outcomes[rule] = {"reward": outcome.reward, "advantage": outcome.advantage, "keep": outcome.keep}
    if trained.accelerator.is_main_process:
        torch.save({"outcomes": outcomes, "world_size": trained.accelerator.num_processes}, folder / "result.pt")
