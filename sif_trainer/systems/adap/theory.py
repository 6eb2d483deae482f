"""What a search would cost if the scores' distribution were known: the benchmark J* of the theory.

    known = Discrete(p=[0.9, 0.1], h=[0.0, 1.0])
    known.optimum(Costs.of(1, 10))          # tau* = 0.5, J* = 20: verify the second kind only

The best policy draws, verifies at once when the chance of a pass h(r) is at least tau*, else discards for ever, until
a pass. tau* solves c_ver E[(h - tau)+] = tau c_rew, and J* = c_ver / tau*. From a recorded pool, h is estimated as the
non-decreasing function of the score that fits best (isotonic regression).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.schedule import Costs

Floats = npt.NDArray[np.float64]


class Optimum(NamedTuple):
    """tau*, J* and which atoms are verified."""

    tau: float
    cost: float
    accept: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Discrete:
    """A distribution of scores: atoms in rising order, with their chances `p` and their pass rates `h`."""

    p: Floats
    h: Floats

    @classmethod
    def of(cls, p: Sequence[float] | Floats, h: Sequence[float] | Floats) -> Discrete:
        """Return the distribution; `p` is scaled to sum to 1.

        Raises:
            UserError: lengths that differ, chances that are not chances.
        """
        chances, rates = np.asarray(p, dtype=float), np.asarray(h, dtype=float)
        if chances.shape != rates.shape or chances.ndim != 1 or not chances.size:
            raise UserError(f"p and h must be lists of one length, not of shapes {chances.shape} and {rates.shape}")
        if not (np.all(chances >= 0) and chances.sum() > 0 and np.all((rates >= 0) & (rates <= 1))):
            raise UserError("p must be 0 or more and not all 0, and h between 0 and 1")
        return cls(chances / chances.sum(), rates)

    def optimum(self, costs: Costs) -> Optimum:
        """Return the known-distribution optimum; tau* = 0 and J* = infinity where nothing passes. Spec section 2.

        J(A) = (c_rew + c_ver P(A)) / P(A and pass) is least on some {h >= t}, so that the few such sets are tried.
        """
        order = np.argsort(-self.h, kind="stable")
        accepted, passed = np.cumsum(self.p[order]), np.cumsum((self.p * self.h)[order])
        with np.errstate(divide="ignore"):
            each = (float(costs.rew) + float(costs.ver) * accepted) / passed
        cost = float(each.min())
        tau = float(costs.ver) / cost
        # An atom whose h equals tau* may be verified or not: J* is the same. It counts as verified.
        accept = (self.h >= tau * (1 - 1e-12)) & (self.h > 0)
        return Optimum(tau, cost, accept)

    def threshold_costs(self, costs: Costs) -> Floats:
        """Return J_t for each atom: the cost of verifying it and all that score higher."""
        accepted, passed = np.cumsum(self.p[::-1])[::-1], np.cumsum((self.p * self.h)[::-1])[::-1]
        with np.errstate(divide="ignore"):
            result: Floats = (float(costs.rew) + float(costs.ver) * accepted) / passed
        return result


def isotonic(rewards: Floats, labels: npt.NDArray[np.bool_]) -> Discrete:
    """Estimate the distribution of one problem's recorded samples, one atom for each distinct score.

    A missing score (NaN) is the lowest atom. The estimate is fitted and judged on the same samples, so that its J* is
    too low, the more so the fewer passes there are.
    """
    scores = np.where(np.isnan(rewards), -np.inf, rewards)
    _, place, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    rates = np.bincount(place, weights=labels) / sizes
    h = isotonic_regression(rates, weights=sizes).x
    return Discrete.of(sizes / sizes.sum(), np.clip(h, 0, 1))  # a mean of rates can be over 1 by a rounding
