"""Keep of a user's own records what one decision needs, and prove that nothing kept could go.

    from sif_trainer.systems.jointcore import JointCore

    core = JointCore(records, judge=lambda kept: "ship" if {"paid", "stock"} <= {r["id"] for r in kept} else "wait")
    result = core.select()
    print(result.kept, result.num_queries, result.certified)

The judge sees a list of records, in the archive's order, and returns its decision: any value with a meaningful `==`.
The decision on the whole archive is the reference. A selection is certified when the judge itself, not an inference,
was seen to keep its decision on the kept set, and to change it whenever one more record went; and when asking again
gave the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.systems.jointcore.archive import Record, check_record, memory_of
from sif_trainer.systems.jointcore.memory import ids_of
from sif_trainer.systems.jointcore.published import cost_order
from sif_trainer.systems.jointcore.search import drive, prune_groups
from sif_trainer.systems.jointcore.selectors import SELECTORS

Judge = Callable[[list[Record]], Hashable]
Remember = Callable[[str, Hashable], None]
METHODS = ("galloping", "jointcore_cost_ordered", "jointcore_legacy", "top_b_first", "conditional_singleton_cost")
MAX_RECHECKS = 16


@dataclass(frozen=True)
class Result:
    """What was kept and what it took.

    `num_queries` counts the judge's answers that search and certificate needed, without the reference;
    `num_rechecks` those asked again. `refused` are the kept ids whose absence, alone, was seen to change the
    decision: all of them when the selection is 1-minimal. `contradictions` are the sets (as lists of ids) on which
    the judge changed its mind.
    """

    kept: list[Any]
    decision: Any
    cost: float
    full_cost: float
    method: str
    num_records: int
    num_queries: int
    num_rechecks: int
    exhausted: bool
    monotone: bool
    deterministic: bool
    certified: bool
    refused: list[Any]
    contradictions: list[list[Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


class JointCore:
    """A search over records with a judge.

    Args:
        records: with `id`, `text`, `cost`, `relevance` each, as `read_archive` returns them.
        judge: decides on a list of records.
        method: a selector's name; `galloping` asks least when relevance means something.
        budget: the most questions that search and certificate may ask; the reference and the rechecks come on top.
        known: decisions of an earlier start by question key, not asked again.
        remember: called with (question key, decision) after each answer, so that a later start can know it.

    Raises:
        UserError: records that are not as they must be, an unknown method, a budget below 1.
    """

    def __init__(
        self,
        records: Sequence[Record],
        judge: Judge,
        *,
        method: str = "galloping",
        budget: int = 256,
        known: dict[str, Any] | None = None,
        remember: Remember = lambda key, decision: None,
    ) -> None:
        if method not in METHODS:
            raise UserError(f"no method '{method}'{nearest(method, METHODS)}; there are {', '.join(METHODS)}")
        if budget < 1:
            raise UserError(f"budget is {budget}; it must be at least 1")
        if not records:
            raise UserError("no records to select from")
        for place, record in enumerate(records):
            check_record(record, f"record {place}")
        if len({record["id"] for record in records}) < len(records):
            raise UserError("two records have the same id; ids must differ")
        self.records, self.judge, self.method, self.budget = records, judge, method, budget
        self.memory = memory_of(records)
        self.num_queries = 0
        self._decisions = dict(known or {})
        self._counted: set[str] = set()
        self._remember = remember

    def select(self) -> Result:
        """Search, certify, and ask again; what the judge raises passes through."""
        memory = self.memory
        self._reference = self._decide(memory.full)
        self.num_queries = 0
        selection = drive(SELECTORS[self.method](memory, self.budget), self._unchanged)
        kept, exhausted, monotone = selection.kept, selection.exhausted, True
        if (self._left() or self._seen(kept)) and not self._unchanged(kept):
            monotone = False  # what galloping inferred from other answers was wrong: search again, asking everything
            selection = drive(prune_groups(memory.full, cost_order(memory), self._left()), self._unchanged)
            kept, exhausted = selection.kept, selection.exhausted
        kept, refused = self._certify(kept)
        rechecked = list(self._recheck(kept, refused))
        contradictions = [ids_of(mask) for mask, same in rechecked if not same]
        complete = len(refused) == kept.bit_count() and self._seen(kept) and self._unchanged(kept)
        return Result(
            kept=self._names(ids_of(kept)),
            decision=self._reference,
            cost=memory.cost(kept),
            full_cost=memory.cost(memory.full),
            method=self.method,
            num_records=memory.n,
            num_queries=self.num_queries,
            num_rechecks=len(rechecked),
            exhausted=exhausted or not complete,
            monotone=monotone,
            deterministic=not contradictions,
            certified=complete and not contradictions,
            refused=self._names(refused),
            contradictions=[self._names(ids) for ids in contradictions],
        )

    def _certify(self, kept: int) -> tuple[int, list[int]]:
        """Drop records until the judge refuses each further absence; return what is left and what was refused."""
        while True:
            refused, before = [], kept
            for i in [i for i in self.memory.by_cost if kept >> i & 1]:
                if not self._seen(kept ^ 1 << i) and not self._left():
                    continue
                if self._unchanged(kept ^ 1 << i):
                    kept ^= 1 << i
                else:
                    refused.append(i)
            if kept == before:
                return kept, sorted(refused)

    def _recheck(self, kept: int, refused: list[int]) -> Iterator[tuple[int, bool]]:
        """Ask the reference and the certificate once more; yield each set with whether the answer was the same."""
        masks = [self.memory.full, kept, *(kept ^ 1 << i for i in refused)]
        for mask in dict.fromkeys(masks[:MAX_RECHECKS]):
            if self._seen(mask):
                yield mask, self.judge(self._records(mask)) == self._decisions[_key(mask)]

    def _unchanged(self, mask: int) -> bool:
        return self._decide(mask) == self._reference

    def _decide(self, mask: int) -> Any:
        key = _key(mask)
        if key not in self._decisions:
            decision = self.judge(self._records(mask))
            self._decisions[key] = decision
            self._remember(key, decision)
        if key not in self._counted:
            self._counted.add(key)
            self.num_queries += 1
        return self._decisions[key]

    def _seen(self, mask: int) -> bool:
        return _key(mask) in self._counted

    def _left(self) -> int:
        return self.budget - self.num_queries

    def _records(self, mask: int) -> list[Record]:
        return [self.records[i] for i in ids_of(mask)]

    def _names(self, ids: Sequence[int]) -> list[Any]:
        return [self.records[i]["id"] for i in ids]


def _key(mask: int) -> str:
    """Name a question by a digest: a mask of 100,000 records would take 12 kB for each."""
    return hashlib.sha256(mask.to_bytes((mask.bit_length() + 7) // 8, "little")).hexdigest()[:32]


def group_questions(n: int, num_needed: int) -> int:
    """Return the most questions a group search asks when `num_needed` of n records turn out to be kept."""
    levels = max(n - 1, 0).bit_length()
    return 1 + 2 * sum(min(2**level, num_needed) for level in range(levels))


def budget_advice(n: int, budget: int) -> str:
    """Say in one line how many questions n records may take, and what the budget is enough for."""
    groups = ", ".join(f"{k}: {group_questions(n, k):,}" for k in (1, 4, 16) if k <= n)
    enough = max((k for k in range(1, min(n, budget) + 1) if group_questions(n, k) + k <= budget), default=0)
    verdict = f"for any {enough} needed records" if enough else "for no guarantee; raise it"
    return (
        f"{n:,} records: a group search asks at most (needed records: questions) {groups}, plus one each to certify; "
        f"galloping a handful where relevance ranks the needed records first; one by one {n:,}. "
        f"budget={budget:,} is enough {verdict}"
    )
