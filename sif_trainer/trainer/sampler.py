"""Prompt order as a function of seed and epoch alone, so that a resumed run draws what a straight run would have
drawn; and questions beside their rephrasings, for the rule that needs pairs.

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


class PairedSampler(EpochSeededSampler):
    """The same over pairs: rows 2p and 2p + 1 of the data set are drawn one behind the other, in one step."""

    def __init__(self, sampler: RepeatSampler, seed: int) -> None:
        self.group_size = sampler.mini_repeat_count
        pairs = RepeatSampler(
            range(len(sampler.data_source) // 2),
            mini_repeat_count=1,
            batch_size=sampler.batch_size // 2,
            repeat_count=sampler.repeat_count,
            shuffle=sampler.shuffle,
            seed=sampler.seed,
        )
        super().__init__(pairs, seed)

    def __iter__(self) -> Iterator[int]:
        for pair in self.sampler:
            for row in (2 * pair, 2 * pair + 1):
                yield from [row] * self.group_size

    def __len__(self) -> int:
        return len(self.sampler) * 2 * self.group_size
