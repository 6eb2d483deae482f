"""Student's interval against hand-worked numbers, and its coverage of the mean it is for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sif_trainer.analysis.interval import mean_interval


def test_three_values() -> None:
    found = mean_interval([1.0, 2.0, 3.0])  # sd 1, t(2) = 4.302653
    assert (found["mean"], found["num"]) == (2.0, 3)
    assert [found["low"], found["high"]] == pytest.approx([2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)])


def test_one_value_has_no_interval() -> None:
    found = mean_interval([0.25])
    assert found["mean"] == 0.25 and math.isnan(found["low"]) and math.isnan(found["high"])


def test_it_covers_the_mean_in_95_of_100_draws() -> None:
    draws = np.random.default_rng(0).normal(0.3, 2.0, size=(4000, 5))
    intervals = [mean_interval(list(draw)) for draw in draws]
    covered = sum(found["low"] <= 0.3 <= found["high"] for found in intervals) / len(draws)
    assert covered == pytest.approx(0.95, abs=0.015)
