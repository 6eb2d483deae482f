"""The baseline: mean certainty is the reward, everybody usable is kept."""

from __future__ import annotations

import math

import pytest
import torch

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.intuitor import intuitor
from sif_trainer.feedback.settings import FeedbackSettings


def outcome_of(means: list[float], usable: list[bool]):
    groups = Groups(
        profile=torch.full((1, len(means), 10), math.nan, dtype=torch.float64),  # no windows are looked at
        length=torch.ones(1, len(means)),
        certainty_mean=torch.tensor([means], dtype=torch.float64),
        certainty_variance=torch.zeros(1, len(means)),
        usable=torch.tensor([usable]),
    )
    return intuitor(groups, FeedbackSettings(advantage_epsilon=0.0))


def test_reward_is_the_mean_certainty_standardised_over_the_group() -> None:
    outcome = outcome_of([1.0, 2.0, 6.0], [True] * 3)
    assert outcome.reward.tolist() == [[1, 2, 6]]
    scores = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    torch.testing.assert_close(outcome.advantage[0], (scores - 3) / scores.std())
    assert outcome.peer_wins.tolist() == [[0, 1, 2]]


def test_nothing_is_filtered_but_what_is_not_usable() -> None:
    equal = outcome_of([3.0, 3.0], [True, True])
    assert equal.keep.all() and not equal.advantage.any()
    spoilt = outcome_of([1.0, math.nan, 2.0], [True, False, True])
    assert spoilt.keep.tolist() == [[True, False, True]]
    assert spoilt.reward[0].tolist() == pytest.approx([1, math.nan, 2], nan_ok=True)
    assert spoilt.advantage[0].tolist() == pytest.approx([-math.sqrt(0.5), 0, math.sqrt(0.5)])
    assert spoilt.peer_wins.tolist() == [[0, 0, 1]]
