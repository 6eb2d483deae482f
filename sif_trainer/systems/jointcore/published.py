"""The published selectors, by the names of the published tables.

Each takes a memory and a budget of questions and returns a search (`search.py`). The first five ask in no more than
one pass; the two JointCore searches differ in their order alone. `exact_oracle` reads the truth and so needs a
`Task`.
"""

from __future__ import annotations

from sif_trainer.systems.jointcore.hashing import shuffled
from sif_trainer.systems.jointcore.memory import Memory, mask_of
from sif_trainer.systems.jointcore.search import Kept, Search, prune_groups, prune_singly
from sif_trainer.systems.jointcore.tasks import TOP_B, Task


def full_memory(memory: Memory, budget: int) -> Search:
    """Keep everything."""
    return Kept(memory.full)
    yield


def random_b(memory: Memory, budget: int) -> Search:
    """Keep four records drawn by the memory's key."""
    return Kept(mask_of(shuffled(memory.n, memory.key, "random_b")[:TOP_B]))
    yield


def semantic_top_b(memory: Memory, budget: int) -> Search:
    """Keep the four most relevant records."""
    return Kept(mask_of(memory.top(TOP_B)))
    yield


def independent_leave_one_out(memory: Memory, budget: int) -> Search:
    """Keep the records whose absence alone changes the decision, and those the budget did not reach."""
    full = kept = memory.full
    for i in range(min(memory.n, budget)):
        if (yield full ^ 1 << i):
            kept ^= 1 << i
    return Kept(kept, exhausted=budget < memory.n)


def conditional_singleton_cost(memory: Memory, budget: int) -> Search:
    """Drop records one by one, the dearest first."""
    return prune_singly(memory.full, memory.by_cost, budget)


def jointcore_legacy(memory: Memory, budget: int) -> Search:
    """Drop groups, the least relevant first."""
    return prune_groups(memory.full, memory.by_score, budget)


def jointcore_cost_ordered(memory: Memory, budget: int) -> Search:
    """Drop groups, the least relevant first, with the top four last and the dearest of them first."""
    return prune_groups(memory.full, cost_order(memory), budget)


def cost_order(memory: Memory, b: int = TOP_B) -> list[int]:
    """Return cost-ordered JointCore's search order: outside the top `b` by score, then those by falling cost."""
    top = set(memory.top(b))
    return [i for i in memory.by_score if i not in top] + [i for i in memory.by_cost if i in top]


def exact_oracle(memory: Memory, budget: int) -> Search:
    """Keep the first of the true minimum-cost sets. TypeError on a memory whose truth is unknown."""
    if not isinstance(memory, Task):
        raise TypeError("exact_oracle reads the truth, so it needs a benchmark Task")
    return Kept(memory.minimum[0])
    yield
