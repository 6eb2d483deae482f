"""Does the premise hold on a pool: does a higher score mean a higher chance of being correct?

    premise(pool)            # AUC within problems and pooled, Spearman, isotonic gap, top-k against random-k

ADAP's theorem asks for pass rates that do not fall with the score, within each problem. Only problems with correct and
wrong samples can tell. Missing scores count as the lowest. Intervals are over problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from sif_trainer.evaluation.estimate import pass_at_k, wilson
from sif_trainer.systems.adap.intervals import Resampled
from sif_trainer.systems.adap.pools import Recorded
from sif_trainer.systems.adap.theory import Discrete, isotonic

NUM_BINS = 15
_Z = 1.96  # of the bins' Wilson intervals


def premise(pool: Sequence[Recorded], seed: int = 0) -> dict[str, Any]:
    """Return the diagnostics of a pool; only `num_mixed` when no problem has correct and wrong samples.

    `auc_within` is the mean over problems of the chance that a correct sample outscores a wrong one (ties half), and
    `auc_above_half_rate` the share of problems where it is more than a half. `isotonic_gap` is how far pass rates are
    from the best non-decreasing ones, in bins of equally many samples: mean over problems of the mean distance.
    """
    mixed = [problem for problem in pool if 0 < problem.labels.sum() < len(problem.labels)]
    found: dict[str, Any] = {"num_mixed": len(mixed)}
    if not mixed:
        return found
    resampled = Resampled.of(len(mixed), seed)
    scores = [_scores(problem) for problem in mixed]
    within = np.array([auc(s, problem.labels) for s, problem in zip(scores, mixed, strict=True)])
    order = [
        stats.spearmanr(stats.rankdata(s), problem.labels).statistic if len(np.unique(s)) > 1 else 0.0
        for s, problem in zip(scores, mixed, strict=True)
    ]
    everything, labels = np.concatenate(scores), np.concatenate([problem.labels for problem in mixed])
    gaps = [isotonic_gap(s, problem.labels) for s, problem in zip(scores, mixed, strict=True)]
    sizes = [2**i for i in range(int(math.log2(min(len(s) for s in scores))) + 1)]
    return {
        **found,
        "auc_within": asdict(resampled.mean(within)),
        "auc_above_half_rate": float((within > 0.5).mean()),
        "auc_pooled": auc(everything, labels),
        "spearman_within": asdict(resampled.mean(np.array(order))),
        "isotonic_gap": asdict(resampled.mean(np.array(gaps))),
        "top_k": [_top_k(mixed, scores, k, resampled) for k in sizes],
        "bins": _bins(everything, labels),
    }


def auc(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> float:
    """Return the chance that a correct sample outscores a wrong one, ties counting half (Mann and Whitney)."""
    num_correct, num_wrong = int(labels.sum()), int((~labels).sum())
    ranks = stats.rankdata(scores)
    return float((ranks[labels].sum() - num_correct * (num_correct + 1) / 2) / (num_correct * num_wrong))


def isotonic_gap(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> float:
    """Return the mean distance between the pass rates of score bins and their best non-decreasing fit."""
    parts = _split(scores, labels)
    size = np.array([len(part) for part in parts])
    rate = np.array([part.mean() for part in parts])
    fit: Discrete = isotonic(np.repeat(np.arange(len(parts), dtype=float), size), np.concatenate(parts))
    return float((np.abs(fit.h - rate) * size).sum() / size.sum())


def _scores(problem: Recorded) -> npt.NDArray[np.float64]:
    """Return the scores, missing ones a little below all others, so that bins and ranks hold them."""
    known = problem.rewards[~np.isnan(problem.rewards)]
    return np.where(np.isnan(problem.rewards), known.min() - 1 if known.size else 0.0, problem.rewards)


def _split(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
    """Return the labels in bins of about equally many samples, by rising score; equal scores are never parted."""
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, NUM_BINS + 1)[1:-1]))
    place = np.searchsorted(edges, scores, side="right")
    return [labels[place == number] for number in np.unique(place)]


def _top_k(
    mixed: Sequence[Recorded], scores: Sequence[npt.NDArray[np.float64]], k: int, resampled: Resampled
) -> dict[str, Any]:
    """Return the chance of a correct sample among the k best-scored ones, and among k at random."""
    top = [problem.labels[np.argsort(-s, kind="stable")[:k]].any() for s, problem in zip(scores, mixed, strict=True)]
    random = [pass_at_k(len(problem.labels), int(problem.labels.sum()), k) for problem in mixed]
    return {
        "k": k,
        "top": asdict(resampled.mean(np.array(top, dtype=float))),
        "random": asdict(resampled.mean(np.array(random))),
    }


def _bins(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> list[dict[str, float]]:
    rows = []
    for part in _split(scores, labels):
        low, high = wilson(float(part.mean()), len(part), _Z)
        rows.append({"num_samples": len(part), "pass_rate": float(part.mean()), "low": low, "high": high})
    return rows
