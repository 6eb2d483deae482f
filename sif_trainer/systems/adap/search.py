"""The search: draw some, verify the best of them, and again with more, until a candidate passes.

    result = search("2 + 3 = ?", sampler, scorer, verifier, Costs.of(1, 10), budget=Budget(cost=500))
    result.status, result.candidate            # "verified", and the candidate that passed

Rounds come from a rule (`rules.py`; the paper's by default). Equal scores rank in the order of the draws, missing ones
last. Candidates with one final answer share one verification. A verification that ends in an error is paid, and leaves
its candidate unverified: never wrong, never asked again. Beyond the published experiments, which only replay recorded
pools: budgets, measured costs, three modes of verification, a trace that resumes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from sif_trainer.policy.policy import Prompt, digest
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.systems.adap.budget import Budget, Ledger, Measure
from sif_trainer.systems.adap.journal import Cancelled, Journal
from sif_trainer.systems.adap.parts import Candidate, Problem, Sampler, Scorer, Verdict, Verifier
from sif_trainer.systems.adap.rules import RULES, play
from sif_trainer.systems.adap.schedule import Costs

T = TypeVar("T")
Status: TypeAlias = Literal["verified", "budget", "exhausted"]
MODES = ("batch", "sequential", "chunked")


@dataclass(frozen=True)
class How:
    """How a search goes about it.

    Attributes:
        rule: the rule whose rounds are played: `adap`, or `balanced`.
        mode: `batch` verifies and pays a round's candidates together; `sequential` from the best down, until the first
            pass; `chunked` so, `num_workers` at a time, all of a chunk being paid.
        num_workers: verifications at once, in `batch` and `chunked`; the first pass cancels the others.
        measure: what costs are counted in: as `given`, or measured in `seconds` or `tokens`.
    """

    rule: str = "adap"
    mode: str = "sequential"
    num_workers: int = 4
    measure: Measure = "given"

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UserError(f"no rule '{self.rule}'{nearest(self.rule, RULES)}; there are {', '.join(RULES)}")
        if self.mode not in MODES:
            raise UserError(f"no mode '{self.mode}'{nearest(self.mode, MODES)}; there are {', '.join(MODES)}")
        if self.num_workers < 1:
            raise UserError(f"num_workers is {self.num_workers}; it must be 1 or more")

    def wave(self, num_chosen: int) -> int:
        """Return how many of a round's candidates are verified, and paid, at once."""
        return {"batch": max(1, num_chosen), "sequential": 1, "chunked": self.num_workers}[self.mode]


@dataclass(frozen=True)
class Result:
    """How a search ended.

    Attributes:
        status: `verified`; `budget`, and `stopped_by` says which limit; `exhausted`: the sampler's stream has ended,
            and nothing is left to verify.
        candidate: the one that passed, else the best-scored one that is not known to be wrong, else None.
        num_shared: candidates that were settled by another one's verdict.
    """

    id: str
    status: Status
    candidate: Candidate | None
    cost: float
    rew_cost: float
    ver_cost: float
    num_draws: int
    num_verifications: int
    num_rounds: int
    num_errors: int = 0
    num_shared: int = 0
    stopped_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as a record; of the candidate, its index and answer."""
        values = dict(vars(self))
        candidate = values.pop("candidate")
        return {
            **values,
            "candidate": None if candidate is None else candidate.index,
            "answer": None if candidate is None else candidate.answer,
        }


def search(
    problem: Problem | Prompt,
    sampler: Sampler,
    scorer: Scorer,
    verifier: Verifier,
    costs: Costs,
    budget: Budget | None = None,
    how: How | None = None,
    journal: Journal | None = None,
) -> Result:
    """Search one problem until a candidate passes, the budget is spent, or the sampler's stream has ended.

    Args:
        problem: a problem, or a bare prompt.
        sampler: draws candidates (`parts.py`); what it and the next two raise is passed on.
        scorer: ranks them.
        verifier: tells which pass.
        costs: of a draw and of a verification; where they are measured, only for the first plan.
        budget: the limits; none by default, and then a problem that never passes is searched for ever.
        how: rule, mode, workers, measure.
        journal: the trace; with an earlier start's lines in it, the search goes on from there.
    """
    if not isinstance(problem, Problem):
        problem = Problem(f"prompt-{digest(problem)[:16]}", problem)  # two prompts of a journal are two problems
    return _Search(problem, sampler, scorer, verifier, costs, budget, how, journal).run()


class _Search:
    def __init__(
        self,
        problem: Problem,
        sampler: Sampler,
        scorer: Scorer,
        verifier: Verifier,
        costs: Costs,
        budget: Budget | None,
        how: How | None,
        journal: Journal | None,
    ) -> None:
        self.problem, self.sampler, self.scorer, self.verifier = problem, sampler, scorer, verifier
        self.budget, self.how = budget or Budget(), how or How()
        self.journal = Journal() if journal is None else journal
        self.ledger = Ledger(costs, self.how.measure)
        self.drawn: list[Candidate] = []
        self.scores: list[float] = []  # -inf: missing
        self.verdicts: dict[int, Verdict] = {}
        self.by_answer: dict[str, Verdict] = {}
        self.num_shared = 0

    def run(self) -> Result:
        started = time.monotonic()
        ended, number = False, 0
        while True:
            if self.budget.rounds is not None and number >= self.budget.rounds:
                return self._result("budget", number, "rounds")
            if self.budget.seconds is not None and time.monotonic() - started >= self.budget.seconds:
                return self._result("budget", number, "seconds")
            wanted, most = play(self.how.rule, self.ledger.prices, number)
            wanted = 0 if ended else wanted
            waiting = self._waiting()
            if ended and not waiting:
                return self._result("exhausted", number)
            most = min(most, len(waiting) + wanted)  # 0 where a rule would verify what has been verified already
            num_draws, num_verifications = self.ledger.affordable(wanted, most, self.budget)
            if most and not num_verifications:
                return self._result("budget", number, self._limit("verifications", self.ledger.num_verifications))
            if num_draws:
                ended = not self._draw(num_draws)
                waiting = self._waiting()
            if not waiting and num_draws < wanted:
                return self._result("budget", number, self._limit("draws", self.ledger.num_draws))
            number += 1
            if (passed := self._verify(waiting, num_verifications)) is not None:
                return self._result("verified", number, passed=passed)

    def _draw(self, num: int) -> bool:
        """Draw and score; return whether the stream goes on."""
        new = self.journal.draw(self.problem, self.sampler, num, len(self.drawn))
        self.drawn += new
        seconds = 0.0
        if new:
            relative = getattr(self.scorer, "relative", False)
            scores, seconds = self.journal.score(self.problem, self.scorer, self.drawn if relative else new)
            known = [] if relative else self.scores
            self.scores = known + [-float("inf") if score is None else score for score in scores]
        self.ledger.drew(new, seconds)
        return len(new) == num

    def _waiting(self) -> list[Candidate]:
        """Return the candidates without a verdict, best first; equal answers to a settled one are settled with it."""
        for candidate in self.drawn:
            known = self.by_answer.get(candidate.answer or "")
            if candidate.index not in self.verdicts and known is not None:
                self.verdicts[candidate.index] = known
                self.num_shared += 1
        waiting = [candidate for candidate in self.drawn if candidate.index not in self.verdicts]
        return sorted(waiting, key=lambda candidate: (-self.scores[candidate.index], candidate.index))

    def _verify(self, best_first: Sequence[Candidate], most: int) -> Candidate | None:
        """Verify up to `most` candidates, one for each answer; return the one that passed."""
        chosen: dict[Any, Candidate] = {}
        for candidate in best_first:
            if len(chosen) == most:
                break
            chosen.setdefault(candidate.answer or candidate.index, candidate)
        queue = list(chosen.values())
        size = self.how.wave(len(queue))
        for start in range(0, len(queue), size):
            wave = queue[start : start + size]
            verdicts = self._wave(wave)
            self.ledger.verified(verdicts)
            for candidate, verdict in zip(wave, verdicts, strict=True):
                self.verdicts[candidate.index] = verdict
                if candidate.answer and verdict.outcome != "error":
                    self.by_answer[candidate.answer] = verdict
            for candidate, verdict in zip(wave, verdicts, strict=True):
                if verdict.passed:
                    return candidate
        return None

    def _wave(self, wave: Sequence[Candidate]) -> list[Verdict]:
        """Verify some at once; the first pass cancels the others. A pass that the journal knows needs no other."""
        known = {c.index: verdict for c in wave if (verdict := self.journal.verdict(self.problem, c)) is not None}
        if any(verdict.passed for verdict in known.values()):
            return [known.get(c.index) or self.journal.cancelled(self.problem, c) for c in wave]
        cancel = threading.Event()
        missing = [candidate for candidate in wave if candidate.index not in known]
        if len(missing) == 1:
            known[missing[0].index] = self.journal.verify(self.problem, self.verifier, missing[0], cancel)
        elif missing:
            with ThreadPoolExecutor(min(self.how.num_workers, len(missing))) as pool:
                futures = {
                    pool.submit(self.journal.verify, self.problem, self.verifier, candidate, cancel): candidate.index
                    for candidate in missing
                }
                try:
                    for future in as_completed(futures):
                        known[futures[future]] = future.result()
                        if known[futures[future]].passed:
                            break
                finally:
                    cancel.set()
                    pool.shutdown(wait=True, cancel_futures=True)
            for future, index in futures.items():
                if index not in known and not future.cancelled():
                    known[index] = future.result()
        return [known.get(candidate.index, Cancelled()) for candidate in wave]

    def _limit(self, name: str, used: int) -> str:
        return name if getattr(self.budget, name) == used else "cost"

    def _result(self, status: Status, number: int, stopped_by: str = "", passed: Candidate | None = None) -> Result:
        open_ones = [c for c in self.drawn if self.verdicts.get(c.index, Cancelled()).outcome == "error"]
        best = max(open_ones, key=lambda c: (self.scores[c.index], -c.index), default=None)
        return Result(
            id=self.problem.id,
            status=status,
            candidate=passed or best,
            cost=float(self.ledger.cost),
            rew_cost=float(self.ledger.rew),
            ver_cost=float(self.ledger.ver),
            num_draws=self.ledger.num_draws,
            num_verifications=self.ledger.num_verifications,
            num_rounds=number,
            num_errors=sum(v.outcome == "error" and not isinstance(v, Cancelled) for v in self.verdicts.values()),
            num_shared=self.num_shared,
            stopped_by=stopped_by,
        )


def search_many(
    problems: Sequence[Problem],
    sampler: Sampler,
    scorer: Scorer,
    verifier: Verifier,
    costs: Costs,
    budget: Budget | None = None,
    how: How | None = None,
    journal: Journal | None = None,
    in_flight: int = 8,
) -> Iterator[Result]:
    """Search many problems, `in_flight` at a time; yield results as they finish.

    The parts are called from several threads. What one search raises, or an interrupt, stops the others.
    """
    journal = Journal() if journal is None else journal

    def one(problem: Problem) -> Result:
        return search(problem, sampler, scorer, verifier, costs, budget, how, journal)

    return in_threads(one, problems, in_flight, journal)


def in_threads(
    work: Callable[[Problem], T], problems: Sequence[Problem], in_flight: int, journal: Journal
) -> Iterator[T]:
    """Yield what `work` returns for each problem, as it comes; when anything fails, stop all who use the journal."""
    with ThreadPoolExecutor(in_flight) as pool:
        futures = [pool.submit(work, problem) for problem in problems]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            journal.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
