"""Closed forms, brute force and simulated coverage: what the numbers of an evaluation rest on."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sif_trainer.evaluation.estimate import (
    Estimate,
    macro_average,
    maj_at_k,
    mean_over_problems,
    paired_difference,
    pass_at_k,
    wilson,
)


@st.composite
def graded(draw):
    """Answers of one problem (None: no answer), scores that agree within an answer's class or not, and a k."""
    answers = draw(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=8))
    scores = [draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])) for _ in answers]
    return answers, scores, draw(st.integers(1, len(answers)))


@given(num_samples=st.integers(1, 9), data=st.data())
def test_pass_at_k_counts_the_subsets_that_hold_a_correct_sample(num_samples, data):
    num_correct = data.draw(st.integers(0, num_samples))
    k = data.draw(st.integers(1, num_samples))
    subsets = list(combinations(range(num_samples), k))
    share = sum(min(subset) < num_correct for subset in subsets) / len(subsets)
    assert pass_at_k(num_samples, num_correct, k) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(
    ("num_samples", "num_correct", "k", "expected"),
    [(8, 0, 8, 0.0), (8, 1, 8, 1.0), (8, 3, 1, 3 / 8), (4, 2, 2, 1 - 1 / 6), (64, 1, 32, 0.5), (10, 10, 1, 1.0)],
)
def test_pass_at_k_closed_forms(num_samples, num_correct, k, expected):
    assert pass_at_k(num_samples, num_correct, k) == pytest.approx(expected, abs=1e-15)


def test_pass_at_k_is_stable_for_many_samples():
    exact = 1 - math.comb(9_990, 5_000) / math.comb(10_000, 5_000)
    assert pass_at_k(10_000, 10, 5_000) == pytest.approx(exact, rel=1e-12)
    assert pass_at_k(10**6, 1, 1) == pytest.approx(1e-6, rel=1e-9)


def test_pass_at_k_is_unbiased():
    """Its mean over binomial counts is 1 - (1 - p)^k."""
    for n, k, p in [(8, 4, 0.3), (8, 8, 0.1), (5, 2, 0.9)]:
        expected = sum(stats.binom.pmf(c, n, p) * pass_at_k(n, c, k) for c in range(n + 1))
        assert expected == pytest.approx(1 - (1 - p) ** k, abs=1e-12)


@settings(deadline=None, max_examples=300)
@given(graded())
def test_maj_at_k_against_all_subsets(case):
    answers, scores, k = case
    mean_score = {a: np.mean([s for b, s in zip(answers, scores, strict=True) if b == a]) for a in answers}
    total = 0.0
    subsets = list(combinations(answers, k))
    for subset in subsets:
        votes = Counter(answer for answer in subset if answer is not None)
        winners = [answer for answer, count in votes.items() if count == max(votes.values())]
        total += sum(mean_score[winner] for winner in winners) / len(winners) if winners else 0.0
    assert maj_at_k(answers, scores, k) == pytest.approx(total / len(subsets), abs=1e-12)


def test_maj_closed_forms():
    assert maj_at_k([4, 4, 5, None], [1, 1, 0, 0]) == 1.0
    assert maj_at_k([4, 5], [1, 0]) == 0.5  # a tie is drawn by lot
    assert maj_at_k([None, None], [0, 0]) == 0.0
    assert maj_at_k([4, 4, 5], [1, 1, 0], k=1) == pytest.approx(2 / 3)
    assert maj_at_k([4] * 30 + [5] * 34, [1] * 30 + [0] * 34) == 0.0
    # Three of five samples right: the majority of three is right unless both wrong ones are drawn.
    assert maj_at_k(list("aaabb"), [1, 1, 1, 0, 0], k=3) == pytest.approx(1 - 3 / 10)


@pytest.mark.parametrize("function", [lambda k: pass_at_k(4, 1, k), lambda k: maj_at_k("abcd", [1, 0, 0, 0], k)])
@pytest.mark.parametrize("k", [0, 5])
def test_k_must_fit(function, k):
    with pytest.raises(ValueError, match=f"k is {k}"):
        function(k)


@given(st.integers(1, 200), st.data())
def test_wilson_agrees_with_scipy(size, data):
    count = data.draw(st.integers(0, size))
    expected = stats.binomtest(count, size).proportion_ci(0.95, method="wilson")
    low, high = wilson(count / size, size, stats.norm.ppf(0.975))
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.lists(st.sampled_from([eighth / 8 for eighth in range(9)]), min_size=1, max_size=20), st.integers(1, 8))
def test_an_interval_holds_its_value_and_mirrors(values, num_draws):
    estimate = mean_over_problems(values, num_draws)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.value == pytest.approx(np.mean(values))
    mirrored = mean_over_problems([1 - value for value in values], num_draws)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - estimate.high, 1 - estimate.low), abs=1e-6)
    assert estimate.high > estimate.low, "a finite set of problems leaves doubt"


def test_intervals_count_problems_not_samples():
    """Samples that repeat one another add nothing; where every problem is alike, they add up."""
    one = mean_over_problems([1.0, 0.0] * 20, num_draws=1)
    same = mean_over_problems([1.0, 0.0] * 20, num_draws=8)  # eight equal samples per problem
    assert same == one
    alike = mean_over_problems([0.5] * 40, num_draws=8)
    width = (one.high - one.low) / (alike.high - alike.low)
    assert width == pytest.approx(math.sqrt(8), rel=0.05)


# Distributions of the problems' success rates: (name, sampler, mean).
WORLDS = {
    "spread out": (lambda rng, size: rng.beta(0.5, 0.5, size), 0.5),
    "nearly all fail": (lambda rng, size: rng.beta(0.1, 3, size), 0.1 / 3.1),
    "nearly all succeed": (lambda rng, size: rng.beta(5, 0.3, size), 5 / 5.3),
    "few are solved always": (lambda rng, size: (rng.random(size) < 0.1) * 1.0, 0.1),
    "all alike and hard": (lambda rng, size: np.full(size, 0.03), 0.03),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("num_problems", "num_samples"), [(30, 1), (30, 8), (200, 8)])
def test_coverage_of_the_mean(world, num_problems, num_samples):
    """95 % intervals hold the truth in at least 92 % of 1,000 evaluations, or 90 % of the small ones."""
    draw, truth = WORLDS[world]
    rng = np.random.default_rng(1)
    rates = draw(rng, (1000, num_problems))
    values = rng.binomial(num_samples, rates) / num_samples
    estimates = [mean_over_problems(row, num_samples) for row in values]
    coverage = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
    assert coverage >= (0.90 if num_problems == 30 else 0.92)
    if (world, num_problems, num_samples) == ("nearly all fail", 30, 1):
        # What mean ± 1.96 standard errors would have given, and why it is not used.
        means, errors = values.mean(1), values.std(1, ddof=1) / math.sqrt(num_problems)
        assert np.mean(np.abs(means - truth) <= 1.96 * errors) < 0.7


def test_the_mean_of_problems_is_not_overcovered_where_there_is_plenty_of_data():
    rng = np.random.default_rng(2)
    values = rng.binomial(8, rng.beta(0.5, 0.5, (1000, 300))) / 8
    estimates = [mean_over_problems(row, 8) for row in values]
    assert 0.93 <= np.mean([estimate.low <= 0.5 <= estimate.high for estimate in estimates]) <= 0.97


@pytest.mark.parametrize(
    ("rate", "shift"), [((0.5, 0.5), 0.0), ((0.5, 0.5), 0.06), ((0.2, 3.0), 0.02), ((5.0, 0.3), 0.0)]
)
@pytest.mark.parametrize("num_problems", [30, 200])
def test_coverage_of_the_paired_difference(rate, shift, num_problems):
    """The second model solves a little more of the same problems; 1,000 evaluations."""
    rng = np.random.default_rng(3)
    first_rate = rng.beta(*rate, (1000, num_problems))
    second_rate = first_rate + shift * (1 - first_rate)
    truth = shift * (1 - rate[0] / (rate[0] + rate[1]))
    first, second = rng.binomial(8, first_rate) / 8, rng.binomial(8, second_rate) / 8
    estimates = [paired_difference(a, b) for a, b in zip(first, second, strict=True)]
    assert np.mean([estimate.low <= truth <= estimate.high for estimate in estimates]) >= 0.93


def test_pairing_helps():
    rng = np.random.default_rng(4)
    rates = rng.beta(0.5, 0.5, 300)
    first, second = rng.binomial(8, rates) / 8, rng.binomial(8, rates) / 8
    paired = paired_difference(first, second)
    shuffled = paired_difference(first, rng.permutation(second))
    assert paired.high - paired.low < 0.6 * (shuffled.high - shuffled.low)


def test_paired_difference_by_hand():
    """Differences of 1, 0 and 0.5, and the two problems that are added, with a sum of 0 and squares of 1."""
    found = paired_difference([0, 0.5, 0.5], [1, 0.5, 1])
    centre, square = 1.5 / 5, (1 + 0.25 + 1) / 5
    half = stats.t.ppf(0.975, 4) * math.sqrt((square - centre**2) / 5)
    assert (found.value, found.low) == pytest.approx((0.5, centre - half))
    assert found.high == pytest.approx(min(1, centre + half))
    same = paired_difference([1.0] * 50, [1.0] * 50)
    assert same.value == 0 and same.low == pytest.approx(-same.high) and 0 < same.high < 0.05


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
def test_paired_difference_is_antisymmetric(pairs):
    first, second = zip(*pairs, strict=True)
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low), abs=1e-9)
    assert -1 <= there.low <= there.value <= there.high <= 1


def test_macro_average():
    parts = [Estimate(0.5, 0.4, 0.6), Estimate(0.1, 0.07, 0.2)]
    average = macro_average(parts)
    assert average.value == pytest.approx(0.3)
    assert average.low == pytest.approx(0.3 - math.hypot(0.1, 0.03) / 2)
    assert average.high == pytest.approx(0.3 + math.hypot(0.1, 0.1) / 2)
    assert macro_average(parts[:1]) == parts[0]


def test_coverage_of_the_macro_average():
    """Two small benchmarks, one of them hard, and a large one."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(600):
        parts = []
        for (a, b), size in [((0.1, 3), 30), ((0.5, 0.5), 40), ((2, 2), 300)]:
            values = rng.binomial(8, rng.beta(a, b, size)) / 8
            parts.append(mean_over_problems(values, 8))
        average = macro_average(parts)
        hits += average.low <= (0.1 / 3.1 + 0.5 + 0.5) / 3 <= average.high
    assert 0.93 <= hits / 600 <= 0.98


@pytest.mark.parametrize(
    "call", [lambda: mean_over_problems([]), lambda: paired_difference([], []), lambda: macro_average([])]
)
def test_nothing_to_average(call):
    with pytest.raises(ValueError, match="no "):
        call()
