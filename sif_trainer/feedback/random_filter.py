"""Random filtering: Intuitor's advantages, and a random part of the step's responses dropped (paper: Tables 3 and 11).

The controls for "does it matter *which* responses are dropped?". `random_filter` drops a fixed share, `random_matched`
as many as SIF would drop of the same responses. Advantages are computed over the full group first (ours; the paper is
silent). The draw is seeded by run and step and is the same on every process.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.intuitor import intuitor
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import sif


def random_filter(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Drop exactly round(filter_rate * usable responses of the step), whatever they are (spec 1.10)."""
    assert settings.filter_rate is not None
    num_usable = int(groups.usable.sum())
    return intuitor(groups, settings).drop(_draw(groups, round(settings.filter_rate * num_usable)))


def random_matched(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Drop as many responses as SIF would drop of the same step, at random (spec 1.10)."""
    dropped = groups.usable & ~sif(groups, settings).keep
    return intuitor(groups, settings).drop(_draw(groups, int(dropped.sum())))


def _draw(groups: Groups, count: int) -> Tensor:
    """(P, G) bool: `count` of the usable responses, drawn without replacement."""
    source = torch.Generator().manual_seed(groups.seed)
    order = torch.rand(groups.usable.numel(), generator=source, dtype=torch.float64).to(groups.usable.device)
    order = order.masked_fill(~groups.usable.flatten(), torch.inf)
    chosen = torch.zeros_like(groups.usable.flatten())
    chosen[order.argsort(stable=True)[:count]] = True
    return chosen.view_as(groups.usable)
