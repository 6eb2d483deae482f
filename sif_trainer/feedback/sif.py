"""Selective Internal Feedback: window votes, peer votes, a 0/1 reward and the group rule.

`sif vote FILE` applies this file outside a trainer. Equations: docs/method.md.

Shapes: P prompts, G responses per prompt, K windows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

import torch
from torch import Tensor

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, group_advantages, groups_with_a_difference
from sif_trainer.feedback.settings import FeedbackSettings


@dataclass(frozen=True)
class SIFRule:
    """The settings of the vote; defaults are the paper's (appendices B and C).

    Attributes:
        num_windows: K, windows per ranked profile.
        window_size: w, sorted tokens per window.
        min_stride: s, tokens between window starts in the shortest eligible response.
        window_wins: tau_w, windows in which a response must be strictly higher to beat a peer.
        peer_win_rate: tau_p in (0, 1], fraction of the other eligible responses that a winner must beat.

    Raises:
        ValueError: for a setting under which no vote can work.
    """

    num_windows: int = 10
    window_size: int = 100
    min_stride: int = 50
    window_wins: int = 8
    peer_win_rate: float = 0.75

    def __post_init__(self) -> None:
        for name in ("num_windows", "window_size", "window_wins"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.min_stride < 0:
            raise ValueError(f"min_stride={self.min_stride} must not be negative")
        if self.window_wins > self.num_windows:
            raise ValueError(
                f"window_wins={self.window_wins} is more than num_windows={self.num_windows}, so that no response "
                f"could ever beat another; choose at most {self.num_windows} (the paper: 8 of 10)"
            )
        if not 0 < self.peer_win_rate <= 1:
            raise ValueError(f"peer_win_rate={self.peer_win_rate} must lie in (0, 1] (the paper: 0.75)")

    @property
    def min_length(self) -> int:
        """L_min = w + s (K - 1): responses with fewer valid tokens are not eligible (spec 1.2)."""
        return self.window_size + self.min_stride * (self.num_windows - 1)

    def wins_needed(self, num_peers: Tensor) -> Tensor:
        """Return the exact integer ceil(tau_p * num_peers), at least 1, for an int64 tensor of any shape.

        tau_p is read as the fraction that its decimal stands for, because a product of floats can land just above the
        integer: 0.28 * 25 = 7.000000000000001 would ask for eight wins.
        """
        tau = Fraction(self.peer_win_rate).limit_denominator(1_000_000)
        needed = -torch.div(-num_peers * tau.numerator, tau.denominator, rounding_mode="floor")
        return needed.clamp(min=1)

    @classmethod
    def from_settings(cls, settings: object) -> SIFRule:
        """Read the rule's fields from any object that carries them by name, such as `SIFConfig`."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})


def sif(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Selective Internal Feedback: whoever is long enough votes (spec 1.2), `decide` counts."""
    rule = settings.windows
    eligible = groups.usable & (groups.length >= rule.min_length)
    return decide(groups.profile, eligible, rule, settings.advantage_epsilon)


def window_votes(profiles: Tensor) -> Tensor:
    """Count the windows in which response i is strictly higher than j (spec 1.4): (P, G, K) -> (P, G, G) int64.

    A tie gives no vote to either side; NaN profiles win and lose nothing.
    """
    return (profiles.unsqueeze(2) > profiles.unsqueeze(1)).sum(-1)


def decide(profiles: Tensor, eligible: Tensor, rule: SIFRule, epsilon: float = 1e-6) -> GroupOutcome:
    """Let each group vote (spec 1.4 to 1.6).

    Args:
        profiles: (P, G, K) ranked profiles in float64; values of responses that are not eligible are ignored.
        eligible: (P, G) bool. Pad groups of different sizes with responses that are not eligible.
        rule: the vote's settings.
        epsilon: added to the group's standard deviation.

    Returns:
        The outcome of P groups. A winner beats at least ceil(tau_p * (number of other eligible responses)) peers, a
        peer being beaten in at least tau_w windows. With a single eligible response there is nobody to beat: reward 0.

    Raises:
        ValueError: when K of the profiles is not the rule's.
    """
    beats, margin = hold_votes(profiles, eligible, rule)
    peer_wins = beats.sum(-1)
    num_peers = eligible.sum(-1, keepdim=True) - 1
    wins = (peer_wins >= rule.wins_needed(num_peers)) & (num_peers >= 1)
    reward = wins.double().masked_fill(~eligible, torch.nan)
    return GroupOutcome(
        reward=reward,
        advantage=group_advantages(reward, eligible, epsilon),
        keep=eligible & groups_with_a_difference(reward, eligible).unsqueeze(-1),
        peer_wins=peer_wins,
        margin=margin,
    )


def hold_votes(profiles: Tensor, eligible: Tensor, rule: SIFRule) -> tuple[Tensor, Tensor]:
    """Who beats whom (spec 1.4): (P, G, G) bool, and (P,) the mean over eligible pairs of |windows won - lost|.

    Raises ValueError when K of the profiles is not the rule's.
    """
    if profiles.size(-1) != rule.num_windows:
        raise ValueError(
            f"profiles have {profiles.size(-1)} windows, but the rule says num_windows={rule.num_windows}"
        )
    pair = eligible.unsqueeze(2) & eligible.unsqueeze(1)
    pair = pair & ~torch.eye(eligible.size(-1), dtype=torch.bool, device=eligible.device)
    votes = window_votes(profiles)
    lead = (votes - votes.transpose(1, 2)).abs().double()
    return (votes >= rule.window_wins) & pair, (lead * pair).sum((1, 2)) / pair.sum((1, 2))
