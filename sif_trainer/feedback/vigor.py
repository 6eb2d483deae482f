"""VIGOR: responses whose likelihood asks for small changes of the weights rank high.

The gradient norm of each response's mean negative log-likelihood takes one backward pass per response: about what the
update itself costs, once more. Not under ZeRO or FSDP, where a process sees only its part of a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def vigor(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by the rank of -sqrt(T_i) ||grad NLL_i||, spread evenly over [-1, 1], keep all (spec 4.3)."""
    score = -groups.length.double().sqrt() * groups.given("gradient_norm")
    usable = groups.usable & ~score.isnan()  # logits can be finite where a gradient is not
    rank = average_ranks(score, usable)
    last = (usable.sum(-1, keepdim=True) - 1).clamp(min=1)
    return standardise(2 * rank / last - 1, usable, settings.advantage_epsilon)


def average_ranks(values: Tensor, usable: Tensor) -> Tensor:
    """(P, G) float64: ranks from 0 for the lowest, over usable values; equal values share the mean of their ranks.

    (The published program breaks ties by position.)
    """
    pair = usable.unsqueeze(-1) & usable.unsqueeze(-2)
    mine, others = values.unsqueeze(-1), values.unsqueeze(-2)
    lower = ((mine > others) & pair).sum(-1)
    equal = ((mine == others) & pair).sum(-1)
    rank = lower.double() + (equal.double() - 1) / 2
    return rank.masked_fill(~usable, torch.nan)
