"""Rewards for low entropy: RENT (per token) and trajectory entropy (the probability of what was said).

RENT's published recipe adds a format penalty when no answer is found; add such a reward of your own with a weight.
"""

from __future__ import annotations

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def rent(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by minus the mean token entropy, keep all (spec 4.5)."""
    return standardise(-groups.given("entropy_mean"), groups.usable, settings.advantage_epsilon)


def trajectory_entropy(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by the mean log-probability of the response's tokens, keep all (spec 4.5)."""
    return standardise(groups.given("log_prob_mean"), groups.usable, settings.advantage_epsilon)
