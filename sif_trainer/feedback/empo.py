"""EMPO: the reward is the share of the response's semantic cluster; without an answer it is a cluster of one.

Clusters are classes of equal final answers. The published program's loss (GSPO, no KL term) is not part of the rule:
set `beta: 0` for it.
"""

from __future__ import annotations

from sif_trainer.feedback.answers import answer_shares, trained, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def empo(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by (size of the answer's cluster) / G, keep all (spec 4.5)."""
    shares = answer_shares(usable_answers(groups)).clamp(min=1 / groups.usable.size(-1))
    return standardise(shares, trained(groups, settings), settings.advantage_epsilon)
