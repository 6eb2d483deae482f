"""Top-2 (Top-m): the m responses of highest mean certainty get 1, the others 0; nothing is filtered (paper: Table 11).

Ties go to the response that was sampled first, so that exactly m are rewarded.
"""

from __future__ import annotations

import torch

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def top2(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[rank of mean certainty <= num_top], keep all (spec 1.10)."""
    certainty = groups.certainty_mean.masked_fill(~groups.usable, -torch.inf)
    first = certainty.argsort(dim=-1, descending=True, stable=True)[:, : settings.num_top]
    reward = torch.zeros_like(certainty).scatter_(-1, first, 1.0)
    return standardise(reward, groups.usable, settings.advantage_epsilon)
