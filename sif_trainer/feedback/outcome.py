"""The verdict of a group: reward (NaN = not eligible), advantage and update mask.

Every rule returns a `GroupOutcome`; the trainer, `sif vote` and the analyses read nothing else of a rule.

Shapes: P prompts, G responses per prompt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class GroupOutcome:
    """What the feedback of P groups of G responses comes to; every tensor is (P, G) unless noted.

    Attributes:
        reward: float64; NaN where the response is not eligible.
        advantage: float64; 0 where the response is not eligible or its group is dropped.
        keep: bool; True where the response takes part in the update (policy and KL term).
        peer_wins: int64; number of eligible peers that the response beats.
        margin: (P,) float64; mean over pairs of eligible responses of |windows won - windows lost|, NaN without a
            pair.
    """

    reward: Tensor
    advantage: Tensor
    keep: Tensor
    peer_wins: Tensor
    margin: Tensor

    @property
    def eligible(self) -> Tensor:
        """(P, G) bool: responses that took part in the vote."""
        return ~self.reward.isnan()

    def drop(self, dropped: Tensor) -> GroupOutcome:
        """The same verdicts with some responses, (P, G) bool, left out of the update."""
        return replace(self, keep=self.keep & ~dropped, advantage=self.advantage.masked_fill(dropped, 0.0))


def groups_with_a_difference(reward: Tensor, eligible: Tensor) -> Tensor:
    """Return (P,) bool: groups whose eligible rewards are not all equal (spec 1.6; false for fewer than two).

    Decided by maximum and minimum, never by a standard deviation, which rounding can make non-zero.
    """
    highest = reward.masked_fill(~eligible, -torch.inf).amax(-1)
    lowest = reward.masked_fill(~eligible, torch.inf).amin(-1)
    return highest > lowest


def group_advantages(reward: Tensor, eligible: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Standardise rewards within each group over its eligible responses: (r - mean) / (std + epsilon), spec 1.6.

    Args:
        reward: (P, G) floats; values where `eligible` is False are ignored (NaN allowed).
        eligible: (P, G) bool.
        epsilon: added to the *sample* standard deviation.

    Returns:
        (P, G) float64; 0 for responses that are not eligible and for groups without a difference in reward.
    """
    reward = reward.double().masked_fill(~eligible, 0.0)
    count = eligible.sum(-1, keepdim=True)
    mean = reward.sum(-1, keepdim=True) / count.clamp(min=1)
    deviation = (reward - mean).masked_fill(~eligible, 0.0)
    std = (deviation.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    decided = groups_with_a_difference(reward, eligible).unsqueeze(-1)
    return torch.where(decided, deviation / (std + epsilon), 0.0)


def standardise(reward: Tensor, eligible: Tensor, epsilon: float) -> GroupOutcome:
    """Turn any rewards, (P, G), into an outcome that keeps every eligible response, as ordinary GRPO does.

    A reward of NaN is that of a response that is not eligible. `peer_wins` counts the eligible responses of lower
    reward. A group without a difference has advantages of 0, but is kept: its KL term acts.
    """
    reward = reward.double().masked_fill(~eligible, torch.nan)
    eligible = ~reward.isnan()
    return GroupOutcome(
        reward=reward,
        advantage=group_advantages(reward, eligible, epsilon),
        keep=eligible,
        peer_wins=(reward.unsqueeze(2) > reward.unsqueeze(1)).sum(-1),
        margin=torch.full_like(reward[:, 0], torch.nan),
    )
