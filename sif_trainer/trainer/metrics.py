"""What a step says about itself; every key is explained in docs/metrics.md.

All values are computed from the gathered rows of all processes, so that every process logs the same number.

Shapes: P prompts, G responses per prompt, N = P * G completions over all processes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.trainer.scoring import ResponseStatistics


def vote_metrics(statistics: ResponseStatistics, outcome: GroupOutcome) -> dict[str, float]:
    """Return the metrics of a step's vote and of its responses; NaN where there is nothing to average."""
    keep, eligible = outcome.keep, outcome.eligible
    finite = statistics.finite
    return {
        "sif/eligible_rate": _mean(eligible),
        "sif/keep_rate": _mean(keep),
        "sif/group_keep_rate": _mean(keep.any(-1)),
        "sif/winners_per_group": _mean((outcome.reward == 1).sum(-1)),
        "sif/window_margin": _mean(outcome.margin[~outcome.margin.isnan()]),
        "sif/advantage_abs": _mean(outcome.advantage[keep].abs()),
        "sif/certainty_mean": _mean(statistics.certainty_mean[finite]),
        "sif/certainty_variance": _mean(statistics.certainty_variance[finite]),
        "sif/entropy": _mean(statistics.entropy_mean[finite]),
        "sif/length": _mean(statistics.length),
        "sif/truncated_rate": _mean(statistics.truncated),
        "sif/repetition_rate": _mean(statistics.repetition_rate),
        "sif/top_word_share": _mean(statistics.top_word_share),
        "sif/num_nonfinite": float((~finite).sum()),
    }


def monitor_metrics(monitors: Mapping[str, Tensor], outcome: GroupOutcome) -> dict[str, float]:
    """Compare each monitor's mean over all, kept and winning responses (paper: Table 4); (N,) each, NaN = none."""
    masks = {
        "all": torch.ones_like(outcome.keep),
        "kept": outcome.keep,
        "winners": outcome.keep & (outcome.reward == 1),
    }
    metrics = {}
    for name, values in monitors.items():
        for which, mask in masks.items():
            chosen = values[mask.flatten()]
            metrics[f"monitor/{name}/{which}"] = _mean(chosen[~chosen.isnan()])
    return metrics


def _mean(values: Tensor) -> float:
    return values.double().mean().item() if values.numel() else math.nan
