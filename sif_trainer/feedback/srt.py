"""SRT, self-rewarded training: majority reward on groups that agree enough.

Groups whose majority answer has a smaller share than `consistency_threshold` are dropped. (The published program
samples more prompts than it needs and keeps the most consistent ones; here a step keeps its prompts and masks.)
"""

from __future__ import annotations

from sif_trainer.feedback.answers import answer_shares, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.majority import majority
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings


def srt(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[answer = the majority's], keep groups of enough agreement (spec 4.5)."""
    agreement = answer_shares(usable_answers(groups)).amax(-1, keepdim=True)
    below = agreement < settings.consistency_threshold
    return majority(groups, settings).drop(below.expand_as(groups.usable))
