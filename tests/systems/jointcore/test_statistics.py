from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.systems.jointcore.statistics import (
    PUBLISHED_NAMES,
    bootstrap,
    holm,
    mcnemar,
    paired_tests,
    randranges,
    seeds,
    sign_flip,
)


@given(st.integers(0, 2**64), st.integers(1, 700), st.integers(1, 500))
def test_randranges_are_what_randrange_returns(seed, num, below):
    plain = random.Random(seed)
    assert randranges(seed, num, below).tolist() == [plain.randrange(below) for _ in range(num)]


def test_published_intervals_and_p_values(vectors):
    for case in vectors("statistics.json")["cases"]:
        found = bootstrap(case["differences"], case["seed"])
        expected = case["bootstrap_2000"]
        assert found == pytest.approx((expected["estimate"], *expected["ci95"]), abs=1e-12)
        assert sign_flip(case["differences"], case["seed"]) == case["sign_flip_20000"]["p_value"]


def test_published_mcnemar_and_holm(vectors):
    known = vectors("statistics.json")
    for case in known["mcnemar"]:
        assert mcnemar(case["jointcore_only"], case["singleton_only"]) == pytest.approx(case["p"], rel=1e-12)
    for case in known["holm"]:
        assert holm(case["p"]) == pytest.approx(case["adjusted"], rel=1e-9)


def test_published_seeds(vectors):
    ours = {published: name for name, published in PUBLISHED_NAMES.items()}
    for case in vectors("statistics.json")["seeds"]:
        assert seeds(case["actor"], ours[case["metric"]]) == (case["bootstrap_seed"], case["sign_flip_seed"])


def test_a_family_of_tests_is_adjusted_together():
    tasks = range(40)
    first = {p: {"behaviour": [1] * 40, "savings": [0.9] * 40, "queries": [9 + t % 2 for t in tasks]} for p in "ab"}
    second = {p: {"behaviour": [1] * 39 + [0], "savings": [0.9] * 40, "queries": [16] * 40} for p in "ab"}
    found = {(t.policy, t.metric): t for t in paired_tests(first, second)}
    assert len(found) == 6
    assert found["a", "behaviour"].p_value == 1.0
    assert found["a", "savings"].difference == (0, 0, 0) and found["a", "savings"].adjusted_p_value == 1.0
    queries = found["b", "queries"]
    assert queries.difference.low <= -6.5 <= queries.difference.high
    assert queries.p_value == 1 / 20_001 and queries.adjusted_p_value == pytest.approx(6 / 20_001)
