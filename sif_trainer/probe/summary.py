"""From a probe's records to everything that it reports, as plain values.

summarise(config, records)      # summary.json; report/probe.py draws it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from sif_trainer.evaluation.estimate import Estimate
from sif_trainer.feedback.answers import NO_ANSWER, answer_shares, elect, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.probe.measure import (
    accuracy_numbers,
    mixed,
    response_numbers,
    telling,
    vote_numbers,
    winners,
    within_group_auc,
)
from sif_trainer.probe.record import STATISTICS, column, to_groups
from sif_trainer.probe.rules import votable, vote
from sif_trainer.probe.verdict import judge
from sif_trainer.probe.windows import relaid, suggest
from sif_trainer.trainer.config import SIFConfig


def summarise(config: SIFConfig, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of a probe, and the verdict on the recipe's own rule."""
    groups = to_groups(records, config.mask_truncated_completions, config.seed)
    correct = column(records, "correct")
    settings, left_out = votable(config, groups)
    outcomes = {name: vote(groups, setting) for name, setting in settings.items()}
    own = outcomes[config.feedback]
    assert config.prompts_per_step is not None  # SIFConfig derives it
    rows = config.prompts_per_step * config.num_generations
    accuracy = {name: accuracy_numbers(outcome, correct) for name, outcome in outcomes.items()}
    agreement = _agreement(groups, own)
    summary = {
        "feedback": config.feedback,
        "num_groups": len(records),
        "num_generations": config.num_generations,
        "prompts_per_step": config.prompts_per_step,
        "num_graded_groups": int((~correct.isnan()).any(-1).sum()),
        "num_mixed_groups": int(mixed(correct, torch.ones_like(own.keep)).sum()),
        "num_telling_groups": int(telling(own, correct).sum()),
        "accuracy": _plain(accuracy[config.feedback]["all"]),
        "answer_rate": None if groups.answer is None else (groups.answer != NO_ANSWER).double().mean().item(),
        "responses": response_numbers({name: column(records, name) for name in STATISTICS}),
        "vote": vote_numbers(own),
        "kept_per_step": own.keep.double().mean().item() * rows,
        "agreement": _plain(agreement),
        "rules": {name: {**vote_numbers(outcome), **_plain(accuracy[name])} for name, outcome in outcomes.items()},
        "left_out": left_out,
        "windows": _windows(records, groups, settings["sif"], correct),
        "auc": _plain(_aucs(groups, settings["sif"], correct)),
    }
    verdict = judge(summary, accuracy[config.feedback]["lift"], agreement["lift"] if agreement else None)
    return {**summary, "verdict": asdict(verdict)}


def _agreement(groups: Groups, outcome: GroupOutcome) -> dict[str, Any] | None:
    """How often responses give their group's majority answer, as accuracies are counted; None without answers."""
    if groups.answer is None:
        return None
    answer = usable_answers(groups)
    label = elect(answer).unsqueeze(-1)
    agrees = (answer == label).double().masked_fill(label == NO_ANSWER, torch.nan)
    return {
        **accuracy_numbers(outcome, agrees),
        "majority_share": answer_shares(answer).amax(-1).mean().item(),
        "winners_without_answer": int((winners(outcome) & (answer == NO_ANSWER)).sum()),
    }


def _windows(
    records: Sequence[Mapping[str, Any]], groups: Groups, recipe: FeedbackSettings, correct: Tensor
) -> dict[str, Any]:
    """The vote of `sif` under the recipe's windows, and under the suggested ones on the same samples."""
    rows = {"recipe": (recipe, groups)}
    suggested = suggest(recipe, groups.length[groups.usable])
    if suggested is not None:
        rows["suggested"] = (suggested, relaid(records, groups, suggested))
    return {
        name: {
            "window_size": settings.window_size,
            "min_stride": settings.min_stride,
            "num_windows": settings.num_windows,
            "window_wins": settings.window_wins,
            "min_length": settings.windows.min_length,
            **vote_numbers(outcome := vote(laid, settings)),
            "lift": _plain(accuracy_numbers(outcome, correct)["lift"]),
        }
        for name, (settings, laid) in rows.items()
    }


def _aucs(groups: Groups, settings: FeedbackSettings, correct: Tensor) -> dict[str, Estimate | None]:
    """Within-group AUC of mean certainty and of every window of the recipe."""
    eligible = groups.usable & (groups.length >= settings.windows.min_length)
    found = {"mean certainty": within_group_auc(groups.certainty_mean, correct, groups.usable)}
    found["mean certainty, eligible"] = within_group_auc(groups.certainty_mean, correct, eligible)
    for k in range(settings.num_windows):
        found[f"window {k + 1}"] = within_group_auc(groups.profile[..., k], correct, eligible)
    found["length"] = within_group_auc(groups.length.double(), correct, groups.usable)
    return found


def _plain(value: Any) -> Any:
    """Estimates as mappings of value, low and high."""
    if isinstance(value, Estimate):
        return asdict(value)
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value
