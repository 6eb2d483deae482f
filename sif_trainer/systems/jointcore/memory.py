"""What a search sees of a memory: how many records, what each costs, how relevant each looks. No texts, no truth.

A set of records is one integer whose bit i stands for record i: a subset test, a difference or a union is one machine
operation for 64 records and stays linear for 100,000.

    memory = Memory("example", costs=(3, 9, 1), scores=(0.9, 0.1, 0.5))
    mask_of([0, 2])      # 0b101
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property


def mask_of(ids: Iterable[int]) -> int:
    """Return the set of these record ids as a bit mask."""
    mask = 0
    for i in ids:
        mask |= 1 << i
    return mask


def ids_of(mask: int) -> list[int]:
    """Return the record ids of a bit mask, ascending."""
    return [i for i, bit in enumerate(bin(mask)[:1:-1]) if bit == "1"]


@dataclass(frozen=True)
class Memory:
    """Records 0..n-1 of one decision; `key` seeds whatever is drawn at random for it."""

    key: str
    costs: tuple[float, ...]
    scores: tuple[float, ...]

    @property
    def n(self) -> int:
        """The number of records."""
        return len(self.costs)

    @property
    def full(self) -> int:
        """The mask of all records."""
        return (1 << len(self.costs)) - 1

    def cost(self, mask: int) -> float:
        """Return the summed cost of a set."""
        costs = self.costs
        return sum([costs[i] for i in ids_of(mask)])

    @cached_property
    def by_score(self) -> list[int]:
        """The ids by relevance, lowest first; equal scores by id."""
        return sorted(range(self.n), key=self.scores.__getitem__)

    @cached_property
    def by_cost(self) -> list[int]:
        """The ids by cost, dearest first; equal costs by id."""
        return sorted(range(self.n), key=self.costs.__getitem__, reverse=True)

    def top(self, b: int) -> list[int]:
        """Return the `b` most relevant ids, best first; equal scores by id."""
        return sorted(range(self.n), key=self.scores.__getitem__, reverse=True)[:b]
