"""What a step says about itself; every key is explained in docs/metrics.md.

All values are computed from the gathered rows of all processes, so that every process logs the same number.

Shapes: P prompts, G responses per prompt, N = P * G completions over all processes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from sif_trainer.feedback.answers import NO_ANSWER, answer_shares
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


def verdict_metrics(monitors: Mapping[str, Tensor], outcome: GroupOutcome) -> dict[str, float]:
    """How often a 0/1 reward is what each monitor says, by response and by what a group's winners stand for.

    `reward_accuracy`: share of eligible responses whose reward equals the monitor's value. `label_accuracy`: over
    groups with a winner, the mean share of right winners; for a majority vote, the share of right labels (spec 4.2).
    Empty for rewards that are not all 0 or 1.
    """
    reward = outcome.reward
    if not ((reward == 0) | (reward == 1) | reward.isnan()).all():
        return {}
    metrics = {}
    for name, values in monitors.items():
        value = values.double().view_as(reward)
        known = outcome.eligible & ~value.isnan()
        winners = known & (reward == 1)
        right = (value * winners).nan_to_num(0.0).sum(-1) / winners.sum(-1)
        metrics[f"monitor/{name}/reward_accuracy"] = _mean((reward == value)[known])
        metrics[f"monitor/{name}/label_accuracy"] = _mean(right[winners.any(-1)])
    return metrics


def answer_metrics(answer: Tensor | None) -> dict[str, float]:
    """What the answers of the groups look like; (P, G) classes, -1 = no answer. Empty where no rule reads answers."""
    if answer is None:
        return {}
    given = answer != NO_ANSWER
    shares = answer_shares(answer)
    most = shares.amax(-1, keepdim=True)
    leaders = [len(set(row[best].tolist())) for row, best in zip(answer, (shares == most) & given, strict=True)]
    return {
        "answers/given_rate": _mean(given),
        "answers/num_distinct": _mean(torch.tensor([float(len(set(row.tolist()) - {NO_ANSWER})) for row in answer])),
        "answers/majority_share": _mean(most),
        "answers/tied_rate": _mean(torch.tensor([count > 1 for count in leaders])),
    }


def _mean(values: Tensor) -> float:
    return values.double().mean().item() if values.numel() else math.nan
