"""Bands: the reward is the mean of a quantile band of the sorted certainties (paper: section 2).

`band_low=0 band_high=0.1` rewards the certainty of the surest tenth of the tokens; `0` to `1` is Intuitor. How the
paper's bands are defined is not known; quantiles of the ranking, highest first, are ours.
"""

from __future__ import annotations

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def band(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by the mean certainty between two quantiles of the ranking, keep all (spec 1.10)."""
    return standardise(groups.given("certainty_band"), groups.usable, settings.advantage_epsilon)
