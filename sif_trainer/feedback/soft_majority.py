"""Soft majority: the reward is the share of the group that gives the same answer; 0 without an answer."""

from __future__ import annotations

from sif_trainer.feedback.answers import answer_shares, trained, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def soft_majority(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by the frequency of the answer, keep all (spec 4.5)."""
    shares = answer_shares(usable_answers(groups))
    return standardise(shares, trained(groups, settings), settings.advantage_epsilon)
