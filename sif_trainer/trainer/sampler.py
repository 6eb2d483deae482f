"""Prompt order as a function of seed and epoch alone, so that a resumed run draws what a straight run would have
drawn.

TRL's sampler advances a private generator from epoch to epoch; a resumed run would replay the first epoch's order.
Goes away when TRL's own sampler has `set_epoch`.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch.utils.data import Sampler
from trl.trainer.utils import RepeatSampler


class EpochSeededSampler(Sampler[int]):
    """A `RepeatSampler` that is seeded anew, by `seed + epoch`, whenever an epoch begins."""

    def __init__(self, sampler: RepeatSampler, seed: int) -> None:
        self.sampler = sampler
        self.seed = seed

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate's data loader before each pass."""
        if self.sampler.shuffle:
            self.sampler.generator.manual_seed(self.seed + epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)
