"""Shells: the published tables, the closed form against the definition, exactness, and costs that are none."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.plan import describe, plan
from sif_trainer.systems.adap.rules import rounds
from sif_trainer.systems.adap.schedule import Costs, enumerated, shells

positive = st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000)


def first(num, *costs, c_min=None):
    return [tuple(shell) for shell in islice(shells(Costs.of(*costs), c_min), num)]


@pytest.mark.parametrize(
    ("c_ver", "wanted"),
    [
        (1, [(1, 4, 6), (2, 8, 12), (3, 16, 24), (4, 32, 48)]),
        (10, [(3, 8, 6), (4, 32, 12), (5, 64, 24), (6, 128, 48)]),
        (30, [(4, 2, 6), (5, 64, 12), (6, 128, 24), (7, 256, 48)]),
    ],
)
def test_first_shells_by_hand(c_ver, wanted):
    assert first(4, 1, c_ver) == wanted


def test_published_schedules(expected):
    for case in expected("schedules.json"):
        found = first(len(case["schedule"]), case["c_rew"], case["c_ver"], c_min=case["c_min"])
        assert found == [tuple(row) for row in case["schedule"]]


@settings(max_examples=60, deadline=None)
@given(c_rew=positive, c_ver=positive, c_min=st.none() | positive)
def test_closed_form_is_the_definition(c_rew, c_ver, c_min):
    costs = Costs.of(c_rew, c_ver)
    found = list(islice(shells(costs, c_min), 4))
    last = found[-1].s
    if last > 14:  # enumeration has 2^s pairs to look at only where c_min is tiny
        found, last = [shell for shell in found if shell.s <= 14], 14
    by_definition = [shell for s in range(last + 1) if (shell := enumerated(s, costs, c_min)) is not None]
    assert found == by_definition


@given(c_rew=positive, c_ver=positive, scale=positive)
def test_only_the_ratio_of_costs_matters(c_rew, c_ver, scale):
    assert first(5, c_rew, c_ver) == first(5, c_rew * scale, c_ver * scale)


def test_a_border_is_met_exactly():
    # c_rew + c_ver = 0.3 = 2 c_min: shell 0 is empty by a hair that binary floats do not see.
    assert 0.1 + 0.2 > 0.3
    assert first(1, 0.1, "0.1", c_min="0.1")[0][0] == 1
    assert Costs.of(0.1, 0.2).price(1, 1) == Fraction(3, 10)


@given(c_rew=positive, c_ver=positive)
def test_verifications_double(c_rew, c_ver):
    assert [shell[2] for shell in first(5, c_rew, c_ver)] == [6, 12, 24, 48, 96]


@given(cost=positive)
def test_equal_costs_verify_everything(cost):
    rows = plan(Costs.of(cost, cost), 6)
    assert all(row["total_draws"] == row["total_verifications"] for row in rows)
    assert "scores change only the order" in describe(rows, Costs.of(cost, cost))


def test_the_plan_adds_up():
    rows = plan(Costs.of(1, 10), 5)
    assert [row["total_cost"] for row in rows] == [68, 220, 524, 1132, 2348]
    assert [row["total_draws"] for row in rows] == [8, 40, 104, 232, 488]
    text = describe(rows, Costs.of(1, 10))
    assert "shells 0 to 2 are empty" in text and "2348" in text
    with pytest.raises(UserError, match="between 1 and 100"):
        plan(Costs.of(1, 10), 0)


@settings(deadline=None)
@given(c_rew=positive, c_ver=positive)
def test_balanced_pays_at_most_three_times_the_draws_for_verifying(c_rew, c_ver):
    costs = Costs.of(c_rew, c_ver)
    draws = verifications = 0
    for new, more in islice(rounds("balanced", costs), 30):
        draws, verifications = draws + new, verifications + more
        assert more == 1
        assert costs.ver * verifications <= 3 * costs.rew * draws
        if draws > 1:  # nor waits longer than it must
            assert costs.ver * verifications > 3 * costs.rew * (draws - 1) or new == 0


@pytest.mark.parametrize("cost", [0, -1, float("nan"), float("inf"), "ten", "1/0", -0.5])
def test_costs_must_be_positive_numbers(cost):
    with pytest.raises(UserError, match="c_ver is"):
        Costs.of(1, cost)
    with pytest.raises(UserError, match="c_rew is"):
        Costs.of(cost, 1)


def test_an_unknown_rule_is_named():
    with pytest.raises(UserError, match="did you mean 'balanced'"):
        next(rounds("balance", Costs.of(1, 1)))
