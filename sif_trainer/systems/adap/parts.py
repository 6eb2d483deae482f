"""What a search is made of: problem, candidate, verdict, and the three parts that draw, score and verify.

Exercise it with `search(problem, sampler, scorer, verifier, costs)`. The reference answer is for verifiers only: a
search hands samplers and scorers the problem without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, get_args

from sif_trainer.policy.policy import Prompt, Sample
from sif_trainer.runs.errors import UserError

Outcome: TypeAlias = Literal["pass", "fail", "error"]


@dataclass(frozen=True)
class Problem:
    """One prompt to search. `reference` is the answer key, which only verifiers see: a text, unit tests, or a problem
    of `tasks.load` with its gold answer, rule and fields.
    """

    id: str
    prompt: Prompt
    reference: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What everybody may see, such as the subject."""

    def without_reference(self) -> Problem:
        """Return the problem as samplers and scorers see it."""
        return replace(self, reference=None)


@dataclass(frozen=True)
class Candidate:
    """One draw. `index` counts the problem's draws from 0; `answer` is its final answer, where one can be read, and
    `seconds` its share of the time that drawing took.
    """

    text: str
    index: int
    sample: Sample | None = None
    answer: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What a verifier says. `error` (it failed, or ran out of time) is never a `fail`: nothing is known then."""

    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.outcome not in get_args(Outcome):
            raise UserError(f"a verdict of '{self.outcome}'; it must be one of {', '.join(get_args(Outcome))}")

    @property
    def passed(self) -> bool:
        return self.outcome == "pass"


class Sampler(Protocol):
    """Draws candidates."""

    def draw(self, problem: Problem, num: int, first: int) -> Iterable[Candidate]:
        """Yield the problem's draws number `first` to `first + num - 1`, in order.

        Fewer than `num` means that the stream has ended. The same call gives the same draws, whatever came before.
        """
        ...


class Scorer(Protocol):
    """Ranks candidates."""

    relative: bool
    """Whether a score depends on the other candidates (a vote), so that a search scores all of them again."""

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Sequence[float | None]:
        """Return one score for each candidate, higher is better; None or NaN (missing) ranks last."""
        ...


class Verifier(Protocol):
    """Judges one candidate."""

    def verify(self, problem: Problem, candidate: Candidate, *, cancel: threading.Event | None = None) -> Verdict:
        """Return the verdict; blocks, and may be called from several threads at once.

        `cancel` is set when the verdict is no longer wanted; a verifier that takes long looks at it and returns early
        with an `error`.
        """
        ...
