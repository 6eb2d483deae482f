"""Intervals over problems: the problems of a pool resampled, all trials of one together.

resampled = Resampled.of(num_problems=83, seed=0)
resampled.mean(cost_by_problem)                 # mean with its 95 % interval
resampled.ratio(baseline_cost, adap_cost)       # the same problems in numerator and denominator
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sif_trainer.evaluation.estimate import CONFIDENCE, Estimate

NUM_RESAMPLES = 2_000
_TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Resampled:
    """How often each problem stands in each resample [B, P]."""

    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, num_problems: int, seed: int = 0) -> Resampled:
        """Return the resamples of so many problems; a seed always gives the same ones."""
        rng = np.random.default_rng(seed)
        return cls(rng.multinomial(num_problems, np.full(num_problems, 1 / num_problems), size=NUM_RESAMPLES))

    def mean(self, values: npt.NDArray[np.float64]) -> Estimate:
        """Return the mean of one value per problem, with its percentile interval."""
        low, high = np.quantile(self.counts @ values / len(values), _TAILS)
        return Estimate(float(np.mean(values)), float(low), float(high))

    def ratio(self, above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> Estimate:
        """Return the ratio of two means over the same problems, with its percentile interval."""
        low, high = np.quantile((self.counts @ above) / (self.counts @ below), _TAILS)
        return Estimate(float(np.mean(above) / np.mean(below)), float(low), float(high))
