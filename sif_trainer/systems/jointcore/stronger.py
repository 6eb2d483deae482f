"""Selectors beyond the paper, under the same interface, and the least number of questions that any of them needs.

Both trust the relevance scores as far as one question can confirm them, and both keep what the full singleton pass in
order of cost would keep whenever the records they look at hold every record that matters:

`top_b_first`   asks whether the top four suffice; if so only they are pruned, else everything is.
`galloping`     asks for the top 2, 4, 8, … until a prefix suffices, narrows it by bisection, prunes it, and never asks
                what earlier answers imply. Its number of questions does not grow with the memory.

What is implied rests on monotonicity: adding records to a sufficient set leaves it sufficient. A judge for which more
records can undo a decision breaks that; the singleton and group searches need it for 1-minimality too.
"""

from __future__ import annotations

from collections.abc import Generator

from sif_trainer.systems.jointcore.memory import Memory, mask_of
from sif_trainer.systems.jointcore.published import cost_order
from sif_trainer.systems.jointcore.search import Kept, Search, prune_groups, prune_singly
from sif_trainer.systems.jointcore.tasks import TOP_B


def top_b_first(memory: Memory, budget: int) -> Search:
    """Prune the top four by cost if they suffice, else the whole memory: 6.44 questions a task in the exact stage."""
    if budget < 1:
        return Kept(memory.full, exhausted=True)
    top = memory.top(TOP_B)
    kept = mask_of(top)
    if (yield kept):
        return (yield from prune_singly(kept, [i for i in memory.by_cost if i in top], budget - 1))
    return (yield from prune_singly(memory.full, memory.by_cost, budget - 1))


class _BudgetSpent(Exception):
    pass


class Answers:
    """What has been learned of a monotone decision; asks only what that does not imply."""

    def __init__(self, full: int, budget: int) -> None:
        self.sufficient = [full]
        self.insufficient: list[int] = []
        self.budget = budget

    def ask(self, candidate: int) -> Generator[int, bool, bool]:
        """Return whether the candidate suffices, as known or by a question; _BudgetSpent when none is left."""
        if any(candidate & known == known for known in self.sufficient):
            return True
        if any(candidate | known == known for known in self.insufficient):
            return False
        if self.budget < 1:
            raise _BudgetSpent
        self.budget -= 1
        answer = yield candidate
        (self.sufficient if answer else self.insufficient).append(candidate)
        return answer

    def follow(self, search: Search) -> Generator[int, bool, int]:
        """Run a search to its end, asking only what is not implied; return the mask that it keeps."""
        try:
            candidate = next(search)
            while True:
                candidate = search.send((yield from self.ask(candidate)))
        except StopIteration as stop:
            kept: Kept = stop.value
            return kept.mask


def galloping(memory: Memory, budget: int) -> Search:
    """Find the shortest sufficient prefix by relevance, then prune it: 4.64 questions a task in the exact stage.

    Up to eight records are pruned singly, the dearest first; more in groups, the least relevant first, so that useless
    relevance scores cost a multiple of log n and not n.
    """
    answers = Answers(memory.full, budget)
    ranking = memory.top(memory.n)
    try:
        too_few, enough = 0, TOP_B // 2
        while enough < memory.n and not (yield from answers.ask(mask_of(ranking[:enough]))):
            too_few, enough = enough, 2 * enough
        enough = min(enough, memory.n)
        while enough > TOP_B and enough - too_few > 1:
            middle = (too_few + enough) // 2
            if (yield from answers.ask(mask_of(ranking[:middle]))):
                enough = middle
            else:
                too_few = middle
        prefix = ranking[: max(enough, TOP_B)]
        members, kept = set(prefix), mask_of(prefix)
        if len(prefix) <= 2 * TOP_B:
            search = prune_singly(kept, [i for i in memory.by_cost if i in members], memory.n)
        else:
            search = prune_groups(kept, [i for i in cost_order(memory) if i in members], 2 * memory.n)
        return Kept((yield from answers.follow(search)))
    except _BudgetSpent:
        return Kept(answers.sufficient[-1], exhausted=True)


def certificate_bound(kept: int, n: int) -> int:
    """Return the least number of questions that can prove a kept set sufficient and 1-minimal.

    Each kept record needs a refusal of its own: a refused set that certifies `e` holds every other kept record and not
    `e`, so no refusal serves two. One more answer shows that the set suffices, unless it is the whole memory.
    """
    return kept.bit_count() + (kept != (1 << n) - 1)
