"""The parts of a BALAR study, shared by elicitation, loop, environments and baselines.

An agent must find out what it needs to solve a case, by asking users. What it may read is a `Case`: task, context,
options and, of each user, the public text. What it may not read (a suspect's story, a patient's record, the answer)
never enters a `Case`: a loader keeps it in `Private`, which refuses to be formatted into a text, inside an
`Environment`. The agent meets an environment only through `ask`, whose result is a text or one of the commands that a
person may give.

    trajectory = run_case(case, elicitor, environment, BalarConfig(), Trace())     # loop.py, config.py, trace.py

The loop takes any `Elicitor`: `elicitation.PolicyElicitor` asks a language model; an environment with known tables can
supply them itself, exact or noisy. Everything that is elicited is a `Row` of probabilities, with the labels and
reasons where there are any; a `Table` has one row per value of a dimension.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from sif_trainer.runs.errors import UserError

_REFUSED = "a private text was about to be written into another text; only a simulator may reveal it"


class Private:
    """A text that only the simulator may read: `reveal` is the one way to it, and no prompt of the agent calls it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __str__(self) -> NoReturn:
        raise TypeError(_REFUSED)

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError(_REFUSED)

    def __repr__(self) -> str:
        return "Private(...)"


@dataclass(frozen=True)
class User:
    """Somebody to ask, as far as the agent may know them."""

    name: str
    public: str
    cost: float = 1.0
    """What one question to this user costs, in any unit; used where `BalarConfig.cost_power` is not 0."""

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("public text", self.public)):
            if not isinstance(text, str):
                raise TypeError(f"a user's {what} is a {type(text).__name__}; only a plain text may be public")
            if not text.strip():
                raise UserError(f"the user '{self.name}' has no {what}; say in a sentence who is asked")
        if not 0 < self.cost < math.inf:
            raise UserError(f"the user '{self.name}' has the cost {self.cost}; it must be above 0")


@dataclass(frozen=True)
class Case:
    """What the agent may read of a case. The answer is not in it.

    Raises `UserError` for an answer set of fewer than two options, options or users that are the same, or no user.
    """

    id: str
    task: str
    """What is asked, for example who did it."""
    context: str
    users: tuple[User, ...]
    options: tuple[str, ...] | None = None
    """The closed answer set in the order in which it is shown, or None for a free answer."""

    def __post_init__(self) -> None:
        for text in (self.id, self.task, self.context):
            if not isinstance(text, str):
                raise TypeError(f"case '{self.id}' holds a {type(text).__name__} where a plain text belongs")
        if not self.task.strip():
            raise UserError(f"case '{self.id}' has no task; say what is asked")
        if not self.users:
            raise UserError(f"case '{self.id}' has no user to ask; name at least one")
        _refuse_equals((user.name for user in self.users), f"case '{self.id}' has two users named")
        if self.options is not None:
            if len(self.options) < 2:
                raise UserError(
                    f"case '{self.id}' has an answer set of {len(self.options)}; give two options or more, "
                    "or none for a free answer"
                )
            if any(not option.strip() for option in self.options):
                raise UserError(f"case '{self.id}' has an empty option; every option needs a text")
            _refuse_equals(self.options, f"case '{self.id}' has the option twice:")


class Dimension(NamedTuple):
    """One unknown of a case, and the values that it may have."""

    name: str
    values: tuple[str, ...]
    reason: str = ""


class Question(NamedTuple):
    """A question of the bank; it may be put once to each user."""

    text: str
    choices: tuple[str, ...]
    reason: str = ""
    cost: float = 1.0
    """Times the user's cost gives the pair's."""


class Row(NamedTuple):
    """A distribution over a few alternatives, with the labels and reasons it was made of, if it was."""

    probabilities: tuple[float, ...]
    labels: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


Table: TypeAlias = tuple[Row, ...]
"""One row for each value of a dimension: over a question's choices, or over the options of the case."""


class Triple(NamedTuple):
    """What one likelihood table is about: how would this user answer this question, for each value?"""

    question: Question
    user: User
    dimension: Dimension


class Exchange(NamedTuple):
    """A question that was answered; a sequence of them is the log. All of it is public to the agent."""

    question: Question
    user: User
    answer: str


Log: TypeAlias = Sequence[Exchange]


class Elicitor(Protocol):
    """Where the loop's numbers come from. Every method returns one item for each that is asked for, in order.

    Rows over choices must be positive everywhere (what is impossible can never be unlearned).
    """

    concurrent: bool
    """Whether the loop may call several methods at the same time, from threads."""

    def dimensions(self, case: Case) -> list[Dimension]:
        """Return the first dimensions: at least one, each of two values or more, names and values distinct."""

    def priors(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> list[Row]:
        """Return a row over each dimension's values."""

    def questions(self, case: Case, dimensions: Sequence[Dimension]) -> list[Question]:
        """Return the first bank: at least one question, each of two choices or more, texts and choices distinct."""

    def tables(self, case: Case, triples: Sequence[Triple], log: Log) -> list[Table]:
        """Return for each triple a row over the question's choices for each value of the dimension."""

    def answer_tables(self, case: Case, dimensions: Sequence[Dimension]) -> list[Table]:
        """Return for each dimension a row over the case's options for each value; called only where there are some."""

    def soft_map(self, case: Case, question: Question, answer: str) -> Row:
        """Return how well each choice fits the answer; a row of equals teaches nothing."""

    def new_dimension(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> Dimension | None:
        """Return a dimension unlike the known ones, or None where none is found."""

    def new_questions(
        self, case: Case, dimensions: Sequence[Dimension], known: Sequence[Question], log: Log
    ) -> list[Question]:
        """Return questions about these dimensions, of which the first is new, that are not known; maybe none."""

    def final_answer(self, case: Case, state: Sequence[tuple[Dimension, str]], log: Log) -> str:
        """Return the answer, word for word one of the options if the case has some; `state` is the likeliest one."""


class Skip(NamedTuple):
    """The user does not answer this question: it is spent, and nothing is learned."""


class Stop(NamedTuple):
    """The user wants the answer now."""


class Correct(NamedTuple):
    """The user takes back an earlier answer; the question at hand is put again afterwards."""

    number: int
    """Of the exchange, in the log from 0."""
    answer: str


UserReply: TypeAlias = str | Skip | Stop | Correct


class Environment(Protocol):
    """Who answers. Private texts and the right answer live in here and come out only as replies."""

    def ask(self, case: Case, user: User, question: Question, free: bool) -> UserReply:
        """Return the user's answer in their own words if `free`, else one of `question.choices`, word for word.

        Called once for each question and user, and never again for an exchange that is recorded. A blank answer is
        taken as `Skip`. The commands are for people; simulators return texts.
        """


def plain(text: str) -> str:
    """Return a text as it is compared: without the case, and with single blanks."""
    return " ".join(text.split()).casefold()


def _refuse_equals(texts: Iterable[str], what: str) -> None:
    counts = Counter(map(plain, texts))
    for text, count in counts.items():
        if count > 1:
            raise UserError(f"{what} '{text}'; each must be different")
