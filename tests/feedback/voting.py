"""From lists of token certainties through the library's own profiles and votes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sif_trainer.certainty.profile import ranked_profile
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.sif import SIFRule, decide

Group = Sequence[Sequence[float]]


def profiles(groups: Sequence[Group], rule: SIFRule) -> tuple[Tensor, Tensor]:
    """(P, G, K) profiles and (P, G) eligibility; smaller groups are padded with responses that are not eligible."""
    size = max(len(group) for group in groups)
    rows = [row for group in groups for row in [*group, *[[]] * (size - len(group))]]
    width = max(1, *(len(row) for row in rows))
    certainty = torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], dtype=torch.float64)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(width) < lengths[:, None]
    profile = ranked_profile(certainty, mask, rule.num_windows, rule.window_size)
    return profile.view(len(groups), size, -1), (lengths >= rule.min_length).view(len(groups), size)


def vote(groups: Sequence[Group], rule: SIFRule, epsilon: float = 1e-6) -> GroupOutcome:
    return decide(*profiles(groups, rule), rule, epsilon)
