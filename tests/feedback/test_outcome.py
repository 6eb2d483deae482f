"""Advantages and the group rule, whatever the rewards are."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.feedback.outcome import GroupOutcome, group_advantages, groups_with_a_difference, standardise

# Sevenths, because their sums are rounded.
rewards = st.lists(st.integers(-10_000, 10_000).map(lambda i: i / 7), min_size=2, max_size=16)


def everybody(reward: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(reward, dtype=torch.bool)


@pytest.mark.parametrize(
    ("eligible", "winners", "won", "lost"),
    [
        (8, 1, 2.474874, -0.353553),
        (8, 2, 1.620185, -0.540062),
        (4, 1, 1.5, -0.5),
        (12, 1, 3.175426, -0.288675),
        (12, 2, 2.140872, -0.428174),
        (12, 3, 1.658312, -0.552771),
    ],
)
def test_values_of_the_paper_by_the_sample_standard_deviation(
    eligible: int, winners: int, won: float, lost: float
) -> None:
    reward = torch.tensor([[1.0] * winners + [0.0] * (eligible - winners)])
    advantage = group_advantages(reward, everybody(reward), epsilon=0.0)
    assert advantage.dtype == torch.float64
    assert advantage[0, :winners].tolist() == pytest.approx([won] * winners, abs=5e-7)
    assert advantage[0, winners:].tolist() == pytest.approx([lost] * (eligible - winners), abs=5e-7)


def test_epsilon_is_added_to_the_standard_deviation() -> None:
    reward = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    advantage = group_advantages(reward, everybody(reward), epsilon=0.5)
    assert advantage[0].tolist() == pytest.approx([0.75, -0.25, -0.25, -0.25])


@settings(deadline=None)
@given(rewards)
def test_the_bound_holds_for_any_rewards(values: list[float]) -> None:
    reward = torch.tensor([values], dtype=torch.float64)
    n = len(values)
    advantage = group_advantages(reward, everybody(reward), epsilon=0.0)
    assert advantage.abs().max() <= (n - 1) / math.sqrt(n) * (1 + 1e-9)


@settings(deadline=None)
@given(st.integers(2, 64))
def test_a_single_winner_attains_the_bound(n: int) -> None:
    reward = torch.zeros(1, n)
    reward[0, n // 2] = 1
    advantage = group_advantages(reward, everybody(reward), epsilon=0.0)
    assert advantage.max().item() == pytest.approx((n - 1) / math.sqrt(n))


@settings(deadline=None)
@given(rewards)
def test_advantages_have_mean_zero_and_sample_deviation_one(values: list[float]) -> None:
    reward = torch.tensor([values], dtype=torch.float64)
    advantage = group_advantages(reward, everybody(reward), epsilon=0.0)[0]
    assert advantage.sum().item() == pytest.approx(0, abs=1e-6)
    if max(values) > min(values):
        assert advantage.std().item() == pytest.approx(1, rel=1e-6)


@settings(deadline=None)
@given(rewards, st.lists(st.sampled_from([math.nan, math.inf, 5.0]), min_size=1, max_size=4))
def test_rewards_that_are_not_eligible_are_not_read(values: list[float], garbage: list[float]) -> None:
    plain = torch.tensor([values], dtype=torch.float64)
    longer = torch.tensor([[*garbage, *values]], dtype=torch.float64)
    eligible = torch.tensor([[False] * len(garbage) + [True] * len(values)])
    advantage = group_advantages(longer, eligible)
    assert (advantage[0, : len(garbage)] == 0).all()
    expected = group_advantages(plain, everybody(plain))
    torch.testing.assert_close(advantage[:, len(garbage) :], expected, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.integers(2, 12))
def test_equal_rewards_have_advantage_zero_exactly(value: float, n: int) -> None:
    """Three times 0.1 has a sample deviation of 1.7e-17 and would give an advantage of -1.15 with epsilon 0."""
    reward = torch.full((1, n), value, dtype=torch.float64)
    assert not group_advantages(reward, everybody(reward), epsilon=0.0).any()


def test_groups_with_a_difference() -> None:
    reward = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, math.nan], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    eligible = torch.tensor(
        [[True, True, True], [True, True, True], [True, True, False], [True, False, False], [False, False, False]]
    )
    assert groups_with_a_difference(reward, eligible).tolist() == [True, False, True, False, False]
    advantage = group_advantages(reward, eligible, epsilon=0.0)
    assert not advantage[[1, 3, 4]].any()
    assert advantage[2].tolist() == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5), 0])


def test_not_eligible_is_a_reward_of_nan() -> None:
    reward = torch.tensor([[0.0, math.nan, 1.0]])
    zeros = torch.zeros_like(reward)
    outcome = GroupOutcome(reward, zeros, zeros.bool(), zeros.long(), zeros[:, 0])
    assert outcome.eligible.tolist() == [[True, False, True]]


def test_a_reward_of_nan_is_left_out_and_changes_no_other() -> None:
    reward = torch.tensor([[1.0, math.nan, 0.0, 4.0]])
    outcome = standardise(reward, everybody(reward), 0.0)
    assert outcome.keep.tolist() == [[True, False, True, True]]
    expected = group_advantages(torch.tensor([[1.0, 0.0, 4.0]]), torch.ones(1, 3, dtype=torch.bool), 0.0)
    assert torch.equal(outcome.advantage[:, [0, 2, 3]], expected)
    assert outcome.advantage[0, 1] == 0
