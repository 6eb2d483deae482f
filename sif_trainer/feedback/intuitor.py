"""Intuitor: the reward is a response's mean self-certainty, standardised over the whole group; nothing is filtered.

The baseline that rewards overconfidence until it collapses (docs/method.md). Unlike one of the published programs, the
certainty of a token here comes from the logits that predict it, in fp32 and at the sampling temperature.
"""

from __future__ import annotations

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def intuitor(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by mean certainty: r_i = mean_t c_it, keep all (spec 1.10)."""
    return standardise(groups.certainty_mean, groups.usable, settings.advantage_epsilon)
