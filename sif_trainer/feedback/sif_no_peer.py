"""SIF without the peer vote: the reward is the share of peers beaten, a number between 0 and 1 (paper: Table 2)."""

from __future__ import annotations

import torch

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, group_advantages, groups_with_a_difference
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import hold_votes


def sif_no_peer(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by r_i = q_i / (n - 1) over the n eligible responses; groups of equal rewards are dropped (spec 1.10)."""
    rule = settings.windows
    eligible = groups.usable & (groups.length >= rule.min_length)
    beats, margin = hold_votes(groups.profile, eligible, rule)
    peer_wins = beats.sum(-1)
    num_peers = (eligible.sum(-1, keepdim=True) - 1).clamp(min=1)
    reward = (peer_wins.double() / num_peers).masked_fill(~eligible, torch.nan)
    return GroupOutcome(
        reward=reward,
        advantage=group_advantages(reward, eligible, settings.advantage_epsilon),
        keep=eligible & groups_with_a_difference(reward, eligible).unsqueeze(-1),
        peer_wins=peer_wins,
        margin=margin,
    )
