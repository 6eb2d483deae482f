"""Rates and differences of rates over groups, with 95 % intervals that treat prompts as drawn at random.

    rate(Share([1, 2], [2, 4], num_draws=6))        # 3 of 6, from two groups
    difference(kept, every)

The unit is the group: responses to one prompt resemble one another, and a rule's winners are spread unevenly over
groups. `rate` is `evaluation.estimate.mean_over_problems` for groups of unequal weight; for equal ones it is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from sif_trainer.evaluation.estimate import CONFIDENCE, Estimate, wilson


@dataclass(frozen=True)
class Share:
    """For each group what is counted and out of how much: `parts[g]` of `wholes[g]`, both at least 0.

    Attributes:
        parts: right winners of each group, for example.
        wholes: winners of each group; 0 where the group says nothing.
        num_draws: independent draws behind the whole at the most, such as the number of winners.
    """

    parts: ArrayLike
    wholes: ArrayLike
    num_draws: float

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return parts and wholes in float64."""
        return np.asarray(self.parts, dtype=np.float64), np.asarray(self.wholes, dtype=np.float64)


def rate(share: Share) -> Estimate | None:
    """Return sum(parts) / sum(wholes) with its interval, or None where there is no whole.

    The variance of the ratio is linearised between groups (Cochran 1977, 6.3), with one more group of the largest
    possible variance; the interval is Wilson's with the number of draws that this variance stands for (Dean and Pagano
    2015) and Student's quantile for the groups that say something.
    """
    parts, wholes = share.arrays()
    total, num_groups = float(wholes.sum()), int((wholes > 0).sum())
    if not num_groups:
        return None
    p = float(np.clip(parts.sum() / total, 0.0, 1.0))
    one_more = p * (1 - p) * float((wholes**2).sum()) / num_groups
    variance = (float(((parts - p * wholes) ** 2).sum()) + one_more) / total**2
    size = min(p * (1 - p) / variance, share.num_draws) if variance else num_groups
    critical = float(stdtrit(max(1, num_groups - 1), (1 + CONFIDENCE) / 2))
    return Estimate(p, *wilson(p, size, critical))


def difference(first: Share, second: Share) -> Estimate | None:
    """Return rate(first) - rate(second), both over the same groups, or None where one has no whole.

    The distances of both rates to their limits are combined as squares, less what the groups have in common, by the
    correlation of their residuals (MOVER: Zou and Donner 2008). So the interval is as lopsided as its parts.
    """
    one, other = rate(first), rate(second)
    if one is None or other is None:
        return None
    r = _correlation(*(_residuals(s, e.value) for s, e in ((first, one), (second, other))))
    value = one.value - other.value
    below = _combined(one.value - one.low, other.high - other.value, r)
    above = _combined(one.high - one.value, other.value - other.low, r)
    return Estimate(value, max(-1.0, value - below), min(1.0, value + above))


def _residuals(share: Share, p: float) -> NDArray[np.float64]:
    parts, wholes = share.arrays()
    return np.asarray(parts - p * wholes, dtype=np.float64)


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    scale = math.sqrt(float((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def _combined(a: float, b: float, correlation: float) -> float:
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))


def groups_needed(estimate: Estimate, num_groups: int, half_width: float) -> int:
    """Return about how many groups would bring the interval to +- `half_width`, as 1 / sqrt(n) goes."""
    return math.ceil(num_groups * ((estimate.high - estimate.low) / 2 / half_width) ** 2)
