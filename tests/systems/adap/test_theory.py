"""The known-distribution optimum: published cases, brute force over subsets, the fixed point, isotonic regression."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.theory import Discrete, isotonic

chances = st.floats(0.01, 1)
atoms = st.lists(st.tuples(chances, st.floats(0, 1)), min_size=1, max_size=6).filter(
    lambda a: max(h for _, h in a) > 0.01
)
costs_ = st.tuples(st.floats(0.01, 100), st.floats(0.01, 100))


def test_by_hand():
    known = Discrete.of([0.9, 0.1], [0.0, 1.0])
    best = known.optimum(Costs.of(1, 10))
    assert best.tau == pytest.approx(0.5) and best.cost == pytest.approx(20)
    assert best.accept.tolist() == [False, True]
    assert known.threshold_costs(Costs.of(1, 10)) == pytest.approx([110, 20])


def test_published_cases(expected):
    for case in expected("theory_cases.json"):
        known, costs = Discrete.of(case["p"], case["h"]), Costs.of(case["c_rew"], case["c_ver"])
        best = known.optimum(costs)
        assert best.tau == pytest.approx(case["tau_star"], rel=1e-12)
        assert best.cost == pytest.approx(case["J_star"], rel=1e-12)
        assert best.accept.tolist() == case["accept"]
        assert known.threshold_costs(costs) == pytest.approx(case["J_t"], rel=1e-12)


@given(atoms=atoms, costs=costs_)
def test_no_subset_is_cheaper(atoms, costs):
    p, h = (np.array(column) for column in zip(*atoms, strict=True))
    known, (c_rew, c_ver) = Discrete.of(p, h), costs
    best = known.optimum(Costs.of(c_rew, c_ver))
    p = p / p.sum()
    least = np.inf
    for size in range(1, len(p) + 1):
        for chosen in map(list, combinations(range(len(p)), size)):
            if (p[chosen] * h[chosen]).sum() > 0:
                least = min(least, (c_rew + c_ver * p[chosen].sum()) / (p[chosen] * h[chosen]).sum())
    assert best.cost == pytest.approx(least)


@given(atoms=atoms, costs=costs_)
def test_tau_is_the_root(atoms, costs):
    p, h = (np.array(column) for column in zip(*atoms, strict=True))
    c_rew, c_ver = costs
    best = Discrete.of(p, h).optimum(Costs.of(c_rew, c_ver))
    gain = c_ver * (p / p.sum() * np.maximum(h - best.tau, 0)).sum()
    assert gain == pytest.approx(best.tau * c_rew, rel=1e-6)
    assert 0 < best.tau < 1


def test_nothing_passes():
    best = Discrete.of([0.5, 0.5], [0, 0]).optimum(Costs.of(1, 10))
    assert best.cost == np.inf and best.tau == 0 and not best.accept.any()


def test_isotonic_by_hand():
    rewards = np.array([0.1, 0.1, 0.5, 0.9, np.nan, 0.7])
    labels = np.array([False, True, False, True, False, True])
    known = isotonic(rewards, labels)
    assert known.p == pytest.approx([1 / 6, 2 / 6, 1 / 6, 1 / 6, 1 / 6])
    assert known.h == pytest.approx([0, 1 / 3, 1 / 3, 1, 1])  # 1/2 above 0 are pooled


@given(st.lists(st.tuples(st.floats(-2, 2) | st.just(float("nan")), st.booleans()), min_size=1, max_size=40))
def test_isotonic_estimates_rise_and_keep_the_pass_rate(samples):
    rewards, labels = np.array([r for r, _ in samples]), np.array([label for _, label in samples])
    known = isotonic(rewards, labels)
    assert (np.diff(known.h) >= -1e-12).all()
    assert (known.p * known.h).sum() == pytest.approx(labels.mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("p", "h", "message"),
    [([0.5], [0.5, 0.5], "one length"), ([], [], "one length"), ([-1, 2], [0, 1], "0 or more"), ([1], [2], "between")],
)
def test_what_is_no_distribution_is_refused(p, h, message):
    with pytest.raises(UserError, match=message):
        Discrete.of(p, h)
