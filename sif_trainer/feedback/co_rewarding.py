"""Co-rewarding: the label comes from another view of the same question.

I (`co_rewarding`): each question is asked in its own words and rephrased; the majority of one group labels the other.
II (`co_rewarding_ema`): the majority of a slowly moving teacher, the moving average of the policy, labels the group.
"""

from __future__ import annotations

from sif_trainer.feedback.answers import elect, reward_by_label, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings


def co_rewarding(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[answer = the majority's of the partner group] (spec 4.5); groups 2p and 2p + 1 are partners."""
    if not groups.paired or groups.usable.size(0) % 2:
        raise ValueError("co_rewarding needs each question and its rephrasing as neighbouring groups")
    own = elect(usable_answers(groups))
    return reward_by_label(groups, own.view(-1, 2).flip(-1).flatten(), settings)


def co_rewarding_ema(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[answer = the majority's of the teacher] (spec 4.5)."""
    return reward_by_label(groups, elect(groups.given("teacher_answer")), settings)
