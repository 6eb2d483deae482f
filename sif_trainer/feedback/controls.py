"""The two ends of the scale: a reward that knows nothing, and one that knows the answer."""

from __future__ import annotations

import torch

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings


def random_reward(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by a fair coin per response, keep all: what training gains without any information (spec 4.5)."""
    source = torch.Generator().manual_seed(groups.seed)
    coin = torch.randint(2, groups.usable.shape, generator=source).double().to(groups.usable.device)
    return standardise(coin, groups.usable, settings.advantage_epsilon)


def verifier(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by a verifier's 0 or 1, keep all: ordinary GRPO, and the one rule that reads reference answers."""
    return standardise(groups.given("verdict"), groups.usable, settings.advantage_epsilon)
