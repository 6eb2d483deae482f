"""The premise's diagnostics and the intervals, against plain loops and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.systems.adap.intervals import Resampled
from sif_trainer.systems.adap.pools import Recorded
from sif_trainer.systems.adap.premise import auc, isotonic_gap, premise


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=25).filter(
        lambda s: len({v for _, v in s}) == 2
    )
)
def test_auc_is_the_chance_of_outscoring(samples):
    scores, labels = np.array([float(r) for r, _ in samples]), np.array([v for _, v in samples])
    pairs = [(x > y) + (x == y) / 2 for x in scores[labels] for y in scores[~labels]]
    assert auc(scores, labels) == pytest.approx(np.mean(pairs))


def test_a_perfect_ranker_and_its_reverse():
    rewards = np.arange(60.0)
    labels = rewards >= 50
    found = premise([Recorded("a", rewards, labels), Recorded("b", rewards, labels)])
    assert found["auc_within"]["value"] == 1 and found["auc_above_half_rate"] == 1
    assert found["isotonic_gap"]["value"] == pytest.approx(0)
    assert found["top_k"][0]["top"]["value"] == 1
    assert found["top_k"][0]["random"]["value"] == pytest.approx(1 / 6)
    assert sum(row["num_samples"] for row in found["bins"]) == 120
    turned = premise([Recorded("a", -rewards, labels)])
    assert turned["auc_within"]["value"] == 0 and turned["isotonic_gap"]["value"] > 0.2
    assert turned["spearman_within"]["value"] == pytest.approx(-found["spearman_within"]["value"])


def test_equal_scores_tell_nothing():
    found = premise([Recorded("a", np.zeros(8), np.arange(8) < 2)])
    assert found["auc_within"]["value"] == 0.5 and found["spearman_within"]["value"] == 0


def test_missing_scores_are_the_lowest():
    rewards = np.array([np.nan, np.nan, 0.1, 0.2])
    assert premise([Recorded("a", rewards, np.array([0, 0, 1, 1], dtype=bool))])["auc_within"]["value"] == 1
    only = premise([Recorded("a", np.full(4, np.nan), np.array([0, 0, 1, 1], dtype=bool))])
    assert only["auc_within"]["value"] == 0.5


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_the_gap_is_a_distance_between_rates(labels):
    gap = isotonic_gap(np.arange(float(len(labels))), np.array(labels))
    assert 0 <= gap <= 1
    assert isotonic_gap(np.arange(float(len(labels))), np.sort(labels)) == pytest.approx(0)


def test_intervals_hold_the_mean_and_keep_pairs_together():
    values = np.array([1.0, 2.0, 3.0, 10.0])
    resampled = Resampled.of(4, seed=0)
    estimate = resampled.mean(values)
    assert estimate.low < estimate.value == 4 < estimate.high
    assert estimate.low >= 1 and estimate.high <= 10
    ratio = resampled.ratio(3 * values, values)
    assert (ratio.value, ratio.low, ratio.high) == (3, pytest.approx(3), pytest.approx(3))
    assert estimate == Resampled.of(4, seed=0).mean(values)
