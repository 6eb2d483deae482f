"""Majority vote (TTRL): the group's most frequent answer is the label, and whoever gives it is rewarded.

All `num_generations` responses vote; with `num_trained` only the first so many are trained on, as TTRL votes with 64
and trains on 32. A response without an answer gets 0; a group without any is dropped. Of equally frequent answers the
one given first wins.
"""

from __future__ import annotations

from sif_trainer.feedback.answers import elect, reward_by_label, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings


def majority(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[answer = the majority's] (spec 4.2)."""
    return reward_by_label(groups, elect(usable_answers(groups)), settings)
