"""SIF without windows: peers are compared by mean certainty, and nobody is too short (paper: Table 2).

With eight different means this is Top-2 with the group rule: beating six of seven peers is being first or second.
"""

from __future__ import annotations

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import SIFRule, decide


def sif_no_window(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[share of peers with a lower mean certainty >= tau_p] (spec 1.10): a vote of a single window."""
    one_window = SIFRule(
        num_windows=1, window_size=1, min_stride=0, window_wins=1, peer_win_rate=settings.peer_win_rate
    )
    return decide(groups.certainty_mean.unsqueeze(-1), groups.usable, one_window, settings.advantage_epsilon)
