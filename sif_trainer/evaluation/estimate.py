"""From graded samples to numbers with intervals: avg@n, pass@k, maj@k, averages over a suite, paired differences.

    mean_over_problems([0.5, 1.0, 0.0, 0.25], num_draws=8)        # avg@8 of four problems
    paired_difference([0.5, 1.0], [0.25, 1.0])                    # the same two problems, two models

Scores lie in [0, 1]; partial credit is welcome. The unit of every interval is the problem, because the samples of one
problem resemble one another: it speaks about other problems of the same kind, not about other samples of these alone.
Only the functions' arguments matter here; nothing is random.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return the chance that k of the samples, drawn without replacement, hold a correct one: 1 - C(n-c, k) / C(n, k).

    Unbiased for 1 - (1 - p)^k (Chen et al. 2021, eq. 1), as a product that neither overflows nor cancels.

    Raises:
        ValueError: k below 1 or above the number of samples.
    """
    _check_k(num_samples, k)
    if num_samples - num_correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(num_samples - num_correct + 1, num_samples + 1))


def maj_at_k(answers: Sequence[Hashable | None], scores: Sequence[float], k: int | None = None) -> float:
    """Return the expected score of the most frequent answer among k samples drawn without replacement (default: all).

    `answers` are class labels, equal for equivalent answers; None does not vote, and scores 0 where nobody votes. Ties
    are drawn by lot; an answer's score is the mean of its members'. Exact: for each answer and each number of votes,
    the subsets in which it wins are counted with a polynomial in (votes, ties).

    Raises:
        ValueError: k below 1 or above the number of samples.
    """
    k = len(answers) if k is None else k
    _check_k(len(answers), k)
    sizes = Counter(answer for answer in answers if answer is not None)
    num_silent = len(answers) - sizes.total()
    members: dict[Hashable, list[float]] = defaultdict(list)
    for answer, score in zip(answers, scores, strict=True):
        members[answer].append(score)
    expected = 0.0
    for winner, size in sizes.items():
        chance = 0.0
        others = [other for answer, other in sizes.items() if answer != winner]
        for votes in range(1, min(size, k) + 1):
            ways = _ways(others, num_silent, votes, k - votes)
            chance += math.comb(size, votes) * sum(count / (ties + 1) for ties, count in ways.items())
        expected += chance / math.comb(len(answers), k) * sum(members[winner]) / size
    return expected


def _ways(others: Sequence[int], num_silent: int, most: int, rest: int) -> dict[int, int]:
    """Count, by ties, the ways to fill `rest` places so that none of the `others` has more than `most` votes."""
    counts = {(used, 0): math.comb(num_silent, used) for used in range(min(num_silent, rest) + 1)}
    for size in others:
        longer: dict[tuple[int, int], int] = defaultdict(int)
        for (used, ties), count in counts.items():
            for votes in range(min(size, most, rest - used) + 1):
                longer[used + votes, ties + (votes == most)] += count * math.comb(size, votes)
        counts = longer
    return {ties: count for (used, ties), count in counts.items() if used == rest}


def _check_k(num_samples: int, k: int) -> None:
    if not 1 <= k <= num_samples:
        raise ValueError(f"k is {k}; it must be between 1 and the number of samples, {num_samples}")


def mean_over_problems(values: Sequence[float], num_draws: int = 1, confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of one value in [0, 1] per problem, with an interval that treats problems as drawn at random.

    The interval is Wilson's with an effective number of draws: p (1 - p) over the estimated variance of the mean,
    which is taken between problems (clusters), and Student's quantile for its degrees of freedom (Dean and Pagano
    2015, modified Wilson). It stays in [0, 1], and unlike mean ± 2 standard errors keeps its coverage near 0 and 1.

    Args:
        values: for example each problem's fraction of correct samples.
        num_draws: independent draws behind each value (n for avg@n, 1 for maj@n): the effective number is at most this
            many times the problems, which matters where few values differ.

    Raises:
        ValueError: no values.
    """
    x = np.asarray(values, dtype=np.float64)
    if not x.size:
        raise ValueError("no problems to average over")
    p = float(x.mean())
    largest = p * (1 - p)  # variance of values that are all 0 or 1
    # One more problem of that variance keeps a few values that happen to be close from claiming certainty.
    variance = (float(((x - p) ** 2).sum()) + largest) / x.size
    size = min(largest / variance * x.size, x.size * num_draws) if variance else x.size
    return Estimate(p, *wilson(p, size, _critical(x.size, confidence)))


def wilson(p: float, size: float, critical: float) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion p of `size` draws (Wilson 1927), with a quantile such as 1.96."""
    q = critical**2 / size
    centre = (p + q / 2) / (1 + q)
    half = math.sqrt(q * (p * (1 - p) + q / 4)) / (1 + q)
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


def macro_average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent estimates, each counting once, such as the benchmarks of a suite.

    Distances to the limits add in squares, each side on its own (MOVER: Zou and Donner 2008), so that the interval is
    as lopsided as its parts.

    Raises:
        ValueError: no estimates.
    """
    if not estimates:
        raise ValueError("no estimates to average")
    value = math.fsum(part.value for part in estimates) / len(estimates)
    below = math.sqrt(math.fsum((part.value - part.low) ** 2 for part in estimates)) / len(estimates)
    above = math.sqrt(math.fsum((part.high - part.value) ** 2 for part in estimates)) / len(estimates)
    return Estimate(value, value - below, value + above)


def paired_difference(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of `second - first` over the same problems, one value in [0, 1] per problem and model.

    Student's interval of the differences after two problems are added to them, half a win for each side and a tie:
    Agresti and Min's (2005) interval for paired proportions, carried over to scores. So two models that agree on all
    problems differ by 0 with an interval around it, rather than for certain.

    Raises:
        ValueError: no values, or not as many of both.
    """
    d = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if not d.size:
        raise ValueError("no problems to compare")
    size = d.size + 2
    centre = float(d.sum()) / size
    variance = (float((d**2).sum()) + 1) / size - centre**2
    half = _critical(size, confidence) * math.sqrt(variance / size)
    value = float(d.mean())
    return Estimate(value, max(-1.0, min(value, centre - half)), min(1.0, max(value, centre + half)))


def _critical(num_problems: int, confidence: float) -> float:
    """Return Student's two-sided quantile for the variance between that many problems."""
    return float(stdtrit(max(1, num_problems - 1), (1 + confidence) / 2))
