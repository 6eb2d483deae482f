"""Intervals over groups: the project's own for equal weights, honest coverage for unequal ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.evaluation.estimate import mean_over_problems
from sif_trainer.probe.intervals import Share, difference, groups_needed, rate


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30))
def test_groups_of_equal_weight_have_the_interval_of_problems(counts: list[int]) -> None:
    expected = mean_over_problems([count / 8 for count in counts], num_draws=8)
    found = rate(Share(counts, [8] * len(counts), num_draws=8 * len(counts)))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=20))
def test_a_rate_lies_within_its_interval_and_empty_groups_say_nothing(pairs: list[tuple[int, int]]) -> None:
    parts, wholes = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    found = rate(Share(parts, wholes, sum(wholes)))
    if not sum(wholes):
        assert found is None
        return
    assert found is not None and 0 <= found.low <= found.value <= found.high <= 1
    longer = rate(Share([*parts, 0], [*wholes, 0], sum(wholes)))
    assert longer is not None
    assert (longer.value, longer.low, longer.high) == pytest.approx((found.value, found.low, found.high))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=20))
def test_a_difference_changes_its_sign_with_its_sides(pairs: list[tuple[int, int]]) -> None:
    one, other = (Share([pair[k] for pair in pairs], [4] * len(pairs), 4 * len(pairs)) for k in (0, 1))
    there, back = difference(one, other), difference(other, one)
    assert there is not None and back is not None
    assert -1 <= there.low <= there.value <= there.high <= 1
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low))
    assert difference(one, Share([0], [0], 0)) is None


def test_intervals_hold_what_they_promise_for_uneven_groups() -> None:
    """Groups differ in difficulty and in how many responses are pushed up; up and down are equally often right."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        p = rng.beta(1, 2, size=40)
        num_up = rng.integers(0, 4, size=40)
        up, down = (Share(rng.binomial(n, p) / n.clip(1), (n > 0) * 1.0, n.sum()) for n in (num_up, 8 - num_up))
        weight = num_up > 0
        found = difference(up, Share(np.asarray(down.parts) * weight, weight * 1.0, down.num_draws))
        assert found is not None
        covered.append(found.low <= 0 <= found.high)
    assert 0.92 <= np.mean(covered) <= 0.99


def test_groups_needed_goes_with_the_square_of_the_width() -> None:
    found = difference(Share([1, 0, 1, 0], [1] * 4, 4), Share([0, 1, 0, 1], [1] * 4, 4))
    assert found is not None
    half = (found.high - found.low) / 2
    assert groups_needed(found, 4, half / 3) == 36
