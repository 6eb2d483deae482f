"""Paired statistics over tasks: exact McNemar, sign flips, a bootstrap over tasks, Holm.

    paired_tests(outcomes_by_policy)     # the family of tests of one table, adjusted together

McNemar's test is scipy's binomial test (scipy has no Holm). The Monte-Carlo tests draw the numbers that `randrange` of
Python's generator gives, many at a time, so that the published seeds give the published intervals and p-values to the
last digit. One task is one cluster.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from sif_trainer.systems.jointcore.hashing import hash64

SEED = 26082999
NUM_SIGN_FLIPS = 20_000
NUM_BOOTSTRAPS = 2_000
METRICS = ("behaviour", "savings", "queries")
PUBLISHED_NAMES = {
    "behaviour": "behavioral_sufficiency",
    "savings": "active_token_savings",
    "queries": "intervention_count",
}


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


def randranges(seed: int, num: int, below: int) -> npt.NDArray[np.uint32]:
    """Return what `num` calls of `random.Random(seed).randrange(below)` return, about fifty times as fast.

    `randrange` takes the top bits of a 32-bit output and draws again while they are too large; numpy has the same
    generator.
    """
    state = random.Random(seed).getstate()[1]
    twister = np.random.RandomState()
    twister.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
    shift = np.uint32(32 - below.bit_length())
    chunks, missing = [], num
    while missing > 0:
        chunk = np.frombuffer(twister.bytes(4 * (2 * missing + 64)), dtype="<u4") >> shift
        chunks.append(chunk[chunk < below])
        missing -= len(chunks[-1])
    return np.concatenate(chunks)[:num]


def mcnemar(first_only: int, second_only: int) -> float:
    """Return the two-sided exact p-value of discordant pairs; 1 when there are none."""
    if first_only + second_only == 0:
        return 1.0
    return float(stats.binomtest(min(first_only, second_only), first_only + second_only, 0.5).pvalue)


def sign_flip(differences: Sequence[float], seed: int) -> float:
    """Return the two-sided Monte-Carlo p-value of a mean under random signs, (extreme + 1) / (draws + 1)."""
    values = np.asarray(differences, dtype=float)
    n = len(values)
    signs = randranges(seed, NUM_SIGN_FLIPS * n, 2).reshape(NUM_SIGN_FLIPS, n) * 2.0 - 1.0
    extreme = np.abs(signs @ values / n) >= abs(values.sum() / n) - 1e-15
    return float(extreme.sum() + 1) / (NUM_SIGN_FLIPS + 1)


def bootstrap(differences: Sequence[float], seed: int) -> Interval:
    """Return the mean with its 95 % interval over resampled tasks (sorted positions 50 and 1949 of 2,000)."""
    values = np.asarray(differences, dtype=float)
    n = len(values)
    chosen = randranges(seed, NUM_BOOTSTRAPS * n, n).reshape(NUM_BOOTSTRAPS, n)
    means = np.sort(values[chosen].sum(axis=1) / n)
    return Interval(float(values.sum() / n), float(means[50]), float(means[1949]))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number: stable sort, running maximum of (m - rank) p, at most 1."""
    m, adjusted, running = len(p_values), [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(m), key=p_values.__getitem__)):
        running = max(running, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


class Test(NamedTuple):
    """One paired comparison: mean difference with its interval, the raw p-value, and the adjusted one."""

    policy: str
    metric: str
    difference: Interval
    p_value: float
    adjusted_p_value: float


def seeds(policy: str, metric: str, seed: int = SEED) -> tuple[int, int]:
    """Return the published seeds of (bootstrap, sign flips) for one policy and metric."""
    return (
        seed + hash64(policy, PUBLISHED_NAMES[metric]) % 100_000,
        seed + 100_000 + METRICS.index(metric) + hash64(policy) % 100_000,
    )


def paired_tests(
    first: Mapping[str, Mapping[str, Sequence[float]]], second: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[Test]:
    """Compare two methods, task by task, on every metric of every policy; Holm runs over all of them.

    Args:
        first: {policy: {metric: one value per task, in index order}}; behaviour as 0 or 1.
        second: the same of the method to compare with; differences are first - second.
    """
    rows: list[tuple[str, str, Interval, float]] = []
    for policy, values in first.items():
        for metric in METRICS:
            pairs = list(zip(values[metric], second[policy][metric], strict=True))
            differences = [float(a) - float(b) for a, b in pairs]
            bootstrap_seed, flip_seed = seeds(policy, metric)
            if metric == "behaviour":
                p_value = mcnemar(sum(d > 0 for d in differences), sum(d < 0 for d in differences))
            else:
                p_value = sign_flip(differences, flip_seed)
            rows.append((policy, metric, bootstrap(differences, bootstrap_seed), p_value))
    adjusted = holm([p_value for *_, p_value in rows])
    return [Test(*row, adjusted_p_value) for row, adjusted_p_value in zip(rows, adjusted, strict=True)]
