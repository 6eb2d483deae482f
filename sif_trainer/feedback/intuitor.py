"""Intuitor: the reward is a response's mean self-certainty, standardised over the whole group; nothing is filtered.

The baseline that rewards overconfidence until it collapses (docs/method.md). Unlike one of the published programs, the
certainty of a token here comes from the logits that predict it, in fp32 and at the sampling temperature.
"""

from __future__ import annotations

import torch

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, group_advantages
from sif_trainer.feedback.sif import SIFRule


def intuitor(groups: Groups, rule: SIFRule, epsilon: float) -> GroupOutcome:
    """Reward by mean certainty: r_i = mean_t c_it, keep all (spec 1.10). `rule` is not used: there are no windows."""
    reward = groups.certainty_mean.masked_fill(~groups.usable, torch.nan)
    higher = reward.unsqueeze(2) > reward.unsqueeze(1)
    return GroupOutcome(
        reward=reward,
        advantage=group_advantages(reward, groups.usable, epsilon),
        keep=groups.usable,
        peer_wins=higher.sum(-1),
        margin=torch.full_like(reward[:, 0], torch.nan),
    )
