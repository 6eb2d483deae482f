"""How a selector asks and how its questions are answered.

A selector is a generator: it yields a set of records (a mask), is sent whether the decision on that set is
unchanged, and returns what it keeps. It never sees the judge, so one driver answers from the oracle in a nanosecond
and another batches the questions of fifty tasks into one forward pass.

    selection = drive(jointcore_cost_ordered(task, budget=256), task.sufficient)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from sif_trainer.systems.jointcore.memory import Memory, mask_of


@dataclass(frozen=True, slots=True)
class Kept:
    """What a search returns: the mask of the kept records, and whether the budget ended it early."""

    mask: int
    exhausted: bool = False


Search = Generator[int, bool, Kept]
Selector = Callable[[Memory, int], Search]


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of one search; the full-memory reference is never one of the evaluations."""

    kept: int
    evaluations: int
    exhausted: bool


def drive(search: Search, unchanged: Callable[[int], bool]) -> Selection:
    """Answer a search's questions one by one until it returns."""
    evaluations = 0
    try:
        candidate = next(search)
        while True:
            evaluations += 1
            candidate = search.send(unchanged(candidate))
    except StopIteration as stop:
        kept: Kept = stop.value
    return Selection(kept.mask, evaluations, kept.exhausted)


def prune_groups(kept: int, order: Sequence[int], budget: int) -> Search:
    """Drop what the decision does not need, testing halves of halves of `order` (all kept so far), in turn.

    The root, which drops the whole order, counts as a question.
    """
    queue = deque([(order, mask_of(order))]) if order else deque()
    evaluations = 0
    while queue and evaluations < budget:
        group, mask = queue.popleft()
        evaluations += 1
        if (yield kept ^ mask):
            kept ^= mask
        elif len(group) > 1:
            half = len(group) // 2
            first = mask_of(group[:half])
            queue.append((group[:half], first))
            queue.append((group[half:], mask ^ first))
    return Kept(kept, exhausted=bool(queue))


def prune_singly(kept: int, order: Sequence[int], budget: int) -> Search:
    """Visit `order` (all kept so far) once and drop each record whose absence changes nothing by then."""
    for i in order[:budget]:
        if (yield kept ^ 1 << i):
            kept ^= 1 << i
    return Kept(kept, exhausted=budget < len(order))
