"""The trace of a search, and its memory: problems, draws, scores, verifications, a JSON line each.

    journal = Journal(run.records("trace"))
    search(problem, sampler, scorer, verifier, costs, journal=journal)

What a journal has, it answers with; what it lacks, it asks the part for, and writes down before anybody sees it. A
search that was killed goes on by being played again over its journal: nothing is drawn, scored or verified twice.
Several searches of one problem that share a journal (another rule, best-of-N) see the same draws, each paying as if
alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sif_trainer.policy.policy import Sample
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.parts import Candidate, Outcome, Problem, Sampler, Scorer, Verdict, Verifier


@dataclass(frozen=True)
class Cancelled(Verdict):
    """What is left of a verification that another candidate's pass cut short: the seconds that it took."""

    outcome: Outcome = "error"
    detail: str = "cancelled: another candidate passed"


class Stopped(Exception):
    """A search goes no further, because the program that runs it is ending."""


class Lines(Protocol):
    """What a journal is kept in: `runs.records.Records`, or a list."""

    def append(self, record: Mapping[str, Any], /) -> None: ...

    def __iter__(self) -> Any: ...


class Journal:
    """Draws, scores and verdicts of any number of problems; safe to share between threads.

    Args:
        lines: where lines are kept, with those of an earlier start; without it they are only remembered.
    """

    def __init__(self, lines: Lines | None = None) -> None:
        self._lines = lines
        self._lock = threading.Lock()
        self._draws: dict[str, list[Candidate]] = defaultdict(list)
        self._scores: dict[tuple[str, int], tuple[float | None, float]] = {}
        self._votes: dict[tuple[str, int], tuple[list[float | None], float]] = {}
        self._verdicts: dict[tuple[str, int], Verdict] = {}
        self._cancelled: dict[tuple[str, int], Cancelled] = {}
        self._prompted: set[str] = set()
        self._stopped = False
        self.num_draws = 0
        for line in lines or ():
            self._remember(line)

    def stop(self) -> None:
        """End the searches of all threads at their next line."""
        self._stopped = True

    def draw(self, problem: Problem, sampler: Sampler, num: int, first: int) -> list[Candidate]:
        """Return the draws number `first` to `first + num - 1`; fewer when the sampler's stream has ended."""
        known = self._draws[problem.id]
        missing = first + num - len(known)
        if missing > 0:
            if problem.prompt and problem.id not in self._prompted:
                self._enter([{"id": problem.id, "event": "problem", "prompt": problem.prompt}])
            for candidate in sampler.draw(problem.without_reference(), missing, len(known)):
                if candidate.index != len(known) or len(known) == first + num:
                    raise UserError(
                        f"{problem.id}: the sampler was asked for draws {first} to {first + num - 1}, and gave number "
                        f"{candidate.index} after {len(known)} draws"
                    )
                self._enter([_draw_line(problem.id, candidate)])
        return known[first : first + num]

    def score(
        self, problem: Problem, scorer: Scorer, candidates: Sequence[Candidate]
    ) -> tuple[list[float | None], float]:
        """Return the candidates' scores and the seconds that they took.

        With a relative scorer, `candidates` are all draws so far.
        """
        if getattr(scorer, "relative", False):
            key = (problem.id, len(candidates))
            if key not in self._votes:
                scores, seconds = _scored(scorer, problem, candidates)
                self._enter([{"id": problem.id, "event": "vote", "scores": scores, "seconds": seconds}])
            return self._votes[key]
        unknown = [candidate for candidate in candidates if (problem.id, candidate.index) not in self._scores]
        if unknown:
            scores, seconds = _scored(scorer, problem, unknown)
            self._enter(
                {"id": problem.id, "event": "score", "index": c.index, "score": s, "seconds": seconds / len(unknown)}
                for c, s in zip(unknown, scores, strict=True)
            )
        rows = [self._scores[problem.id, candidate.index] for candidate in candidates]
        return [score for score, _ in rows], sum(seconds for _, seconds in rows)

    def verdict(self, problem: Problem, candidate: Candidate) -> Verdict | None:
        """Return the verdict that is known, if any."""
        return self._verdicts.get((problem.id, candidate.index))

    def cancelled(self, problem: Problem, candidate: Candidate) -> Cancelled:
        """Return what a verification that was cut short took; 0 seconds where none was begun."""
        return self._cancelled.get((problem.id, candidate.index), Cancelled())

    def verify(self, problem: Problem, verifier: Verifier, candidate: Candidate, cancel: threading.Event) -> Verdict:
        """Return the candidate's verdict; `Cancelled`, which is no verdict, where `cancel` has cut it short."""
        known = self.verdict(problem, candidate)
        if known is not None:
            return known
        started = time.perf_counter()
        verdict = verifier.verify(problem, candidate, cancel=cancel)
        if cancel.is_set() and verdict.outcome == "error":
            seconds = time.perf_counter() - started
            self._enter([{"id": problem.id, "event": "cancelled", "index": candidate.index, "seconds": seconds}])
            return self.cancelled(problem, candidate)
        self._enter([_verdict_line(problem.id, candidate.index, verdict)])
        return verdict

    def _enter(self, lines: Iterable[Mapping[str, Any]]) -> None:
        with self._lock:
            if self._stopped:
                raise Stopped
            for line in lines:
                if self._lines is not None:
                    self._lines.append(line)
                self._remember(line)

    def _remember(self, line: Mapping[str, Any]) -> None:
        problem = line["id"]
        match line["event"]:
            case "problem":  # for those who read the trace
                self._prompted.add(problem)
            case "draw":
                self.num_draws += 1
                sample = Sample.from_json(line["sample"]) if line.get("sample") else None
                text = line["text"] if sample is None else sample.text
                self._draws[problem].append(Candidate(text, line["index"], sample, line["answer"], line["seconds"]))
            case "score":
                self._scores[problem, line["index"]] = line["score"], line["seconds"]
            case "vote":
                self._votes[problem, len(line["scores"])] = line["scores"], line["seconds"]
            case "verdict":
                self._verdicts[problem, line["index"]] = Verdict(line["outcome"], line["detail"], line["seconds"])
            case "cancelled":
                self._cancelled[problem, line["index"]] = Cancelled(seconds=line["seconds"])


def _draw_line(problem_id: str, candidate: Candidate) -> dict[str, Any]:
    line = {"id": problem_id, "event": "draw", "index": candidate.index}
    if candidate.sample is None:
        line["text"] = candidate.text
    else:
        line["sample"] = {name: value for name, value in candidate.sample.to_json().items() if name != "token_ids"}
    return {**line, "answer": candidate.answer, "seconds": candidate.seconds}


def _verdict_line(problem_id: str, index: int, verdict: Verdict) -> dict[str, Any]:
    return {
        "id": problem_id,
        "event": "verdict",
        "index": index,
        "outcome": verdict.outcome,
        "detail": verdict.detail,
        "seconds": verdict.seconds,
    }


def _scored(scorer: Scorer, problem: Problem, candidates: Sequence[Candidate]) -> tuple[list[float | None], float]:
    started = time.perf_counter()
    scores = [_score(problem, score) for score in scorer.score(problem.without_reference(), candidates)]
    if len(scores) != len(candidates):
        raise UserError(
            f"{problem.id}: the scorer gave {len(scores)} scores for {len(candidates)} candidates; it must give one "
            "each, None for a missing one"
        )
    return scores, time.perf_counter() - started


def _score(problem: Problem, score: Any) -> float | None:
    """A score as a line can keep it: one that is missing, or the lowest there is, is None."""
    try:
        value = -math.inf if score is None else float(score)
    except (TypeError, ValueError) as error:
        raise UserError(f"{problem.id}: the scorer gave {score!r:.60}, which is neither a number nor None") from error
    if value == math.inf:
        raise UserError(f"{problem.id}: the scorer gave an infinite score; the best one must be a number")
    return value if math.isfinite(value) else None
