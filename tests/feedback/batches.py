"""Batches of made-up responses for the rules' tests: everything a rule may read, with ties, gaps and unusable rows."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.settings import FeedbackSettings

SMALL = {"num_windows": 3, "window_size": 2, "min_stride": 1, "window_wins": 2, "peer_win_rate": 0.5}
OPTIONS = {  # what the rules require
    "random_filter": {"filter_rate": 0.2},
    "certainty_gate": {"gate_threshold": 5.0},
    "variance_gate": {"gate_threshold": 4.0},
    "entropy_gate": {"gate_threshold": 1.0},
    "band": {"band_low": 0.0, "band_high": 0.5},
}


def settings(rule: str = "sif", **values: object) -> FeedbackSettings:
    return FeedbackSettings(**{"feedback": rule, **SMALL, **OPTIONS.get(rule, {}), **values})


def batch(seed: int, num_groups: int = 6, size: int = 8, ties: bool = True) -> Groups:
    """Groups with equal values now and then, responses too short for the windows, without an answer, not usable."""
    source = random.Random(seed)

    def numbers(low: float, high: float) -> torch.Tensor:
        values = [[source.uniform(low, high) for _ in range(size)] for _ in range(num_groups)]
        if ties:
            values = [[round(v, 1) for v in row] for row in values]
        return torch.tensor(values, dtype=torch.float64)

    def whole(low: int, high: int) -> torch.Tensor:
        return torch.tensor([[source.randint(low, high) for _ in range(size)] for _ in range(num_groups)])

    profile = torch.stack([numbers(0, 9) for _ in range(3)], dim=-1).sort(-1, descending=True).values
    return Groups(
        profile=profile,
        length=whole(2, 9),
        certainty_mean=numbers(1, 8),
        certainty_variance=numbers(0, 8),
        usable=whole(0, 9) > 0,
        seed=seed,
        certainty_band=numbers(1, 9),
        entropy_mean=numbers(0, 2),
        log_prob_mean=numbers(-3, 0),
        step_confidence=numbers(0, 9),
        gradient_norm=numbers(0, 3),
        answer=whole(-1, 3),
        teacher_answer=whole(-1, 3),
        paired=True,
        verdict=whole(0, 1).double(),
    )


def only_usable(groups: Groups) -> Groups:
    return replace(groups, usable=torch.ones_like(groups.usable))
