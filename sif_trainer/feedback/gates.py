"""Gates: Intuitor's advantages, and responses beyond one threshold dropped (paper: Table 3).

What filtering by a single number does, beside SIF's votes. Advantages are computed over the full group first, as for
random filtering, so that the gates differ from it in nothing but the choice (ours; the paper is silent).
"""

from __future__ import annotations

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.intuitor import intuitor
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings


def certainty_gate(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Keep responses of mean certainty <= gate_threshold: collapse goes with rising certainty (spec 1.10)."""
    return intuitor(groups, settings).drop(groups.certainty_mean > _threshold(settings))


def variance_gate(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Keep responses whose certainty varies by <= gate_threshold over their tokens (spec 1.10)."""
    return intuitor(groups, settings).drop(groups.certainty_variance > _threshold(settings))


def entropy_gate(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Keep responses of mean token entropy >= gate_threshold (spec 1.10)."""
    return intuitor(groups, settings).drop(groups.given("entropy_mean") < _threshold(settings))


def length_gate(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Keep responses of at least L_min tokens: SIF's eligibility and nothing else of it (spec 1.10)."""
    return intuitor(groups, settings).drop(groups.length < settings.windows.min_length)


def _threshold(settings: FeedbackSettings) -> float:
    assert settings.gate_threshold is not None  # `Rule.required`
    return settings.gate_threshold
