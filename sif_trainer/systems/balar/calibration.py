"""Do the labels' weights mean what they say, and which weights would? Beyond the paper.

    table = reliability(predicted, happened)              # of ten bins: mean probability, frequency, size
    likely, neutral, unlikely = fit_weights(labels, choices)

A question's state likelihood is a softmax over its choices of the summed log weights of their labels, so that the
weights that fit observed answers best are those of a logistic regression with two coefficients. Needs cases whose
true state is known, such as synthetic worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

NEUTRAL_WEIGHT = 0.5


class Bin(NamedTuple):
    """Predictions of about the same probability, and how often they came true."""

    probability: float
    frequency: float
    size: int


def reliability(predicted: Sequence[float], happened: Sequence[bool], num_bins: int = 10) -> list[Bin]:
    """Return the bins of equal width that hold predictions, from low to high."""
    p, hit = np.asarray(predicted, dtype=float), np.asarray(happened, dtype=float)
    places = np.minimum((p * num_bins).astype(int), num_bins - 1)
    return [
        Bin(float(p[mine].mean()), float(hit[mine].mean()), int(mine.sum()))
        for mine in (places == number for number in range(num_bins))
        if mine.any()
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the mean distance of probability and frequency, weighted by size."""
    return sum(b.size * abs(b.probability - b.frequency) for b in bins) / sum(b.size for b in bins)


def fit_weights(counts: np.ndarray, chosen: Sequence[int]) -> tuple[float, float, float]:
    """Return the weights (likely, neutral, unlikely) under which the observed answers are likeliest; neutral is 0.5.

    Args:
        counts: (answers, choices, 3): for each answered question, how many dimensions give each choice the labels
            likely, neutral and unlikely at their true values. Choices that a question lacks are NaN.
        chosen: (answers): the place of the choice that was given.
    """
    features = counts[..., [0, 2]]
    rows = np.arange(len(chosen))

    def loss(log_ratios: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.nan_to_num(features @ log_ratios, nan=-np.inf)
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        known = np.nan_to_num(features)
        gradient = (chances[..., None] * known).sum(1) - known[rows, chosen]
        return -np.log(chances[rows, chosen]).mean(), gradient.mean(0)

    likely, unlikely = np.exp(minimize(loss, np.zeros(2), jac=True, method="BFGS").x) * NEUTRAL_WEIGHT
    return float(likely), NEUTRAL_WEIGHT, float(unlikely)
