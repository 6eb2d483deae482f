"""What the agent knows of one case: dimensions, questions, tables, what it was told, and the belief that follows.

A pair of question and user has the number `question * num_users + user`; numbers stay when questions are added.
`loop.py` fills it; nothing here asks anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sif_trainer.systems.balar.belief import (
    answer_posterior,
    can_expand,
    certain_rate,
    entropy,
    expand,
    factorised,
    likeliest,
    marginals,
    state_likelihood,
    target_entropy,
    update,
)
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.parts import Case, Dimension, Exchange, Question, Row, Table, User
from sif_trainer.systems.balar.selection import Bank, Choice, best


@dataclass(frozen=True)
class Snapshot:
    """The belief at one moment."""

    num_rounds: int
    num_asks: int
    """Questions put so far, skipped ones included."""
    num_expansions: int
    dimensions: tuple[Dimension, ...]
    marginals: tuple[tuple[float, ...], ...]
    state: tuple[tuple[Dimension, str], ...]
    """The most probable joint state: what the final answer is made from."""
    entropy: float
    """In nats."""
    option_probabilities: tuple[float, ...] | None
    """Of the case's options, if it has some."""
    log: tuple[Exchange, ...]
    log_joint: Tensor
    """(n_1, ..., n_p)"""


@dataclass
class Told:
    """Soft evidence about one pair, from the time when there were `num_dimensions`."""

    pair: int
    answer: str
    omega: Row
    num_dimensions: int


class State:
    """The agent's knowledge; every method leaves `log_joint` up to date."""

    def __init__(
        self, case: Case, config: BalarConfig, dimensions: Sequence[Dimension], priors: Sequence[Row]
    ) -> None:
        self.case = case
        self.config = config
        self.dimensions = list(dimensions)
        self.priors = [
            row_tensor(prior, len(dimension.values)).tolist()
            for prior, dimension in zip(priors, dimensions, strict=True)
        ]
        self.questions: list[Question] = []
        self.tables: dict[int, list[Tensor]] = {}
        """By pair: a tensor (n_j, num_choices) for each dimension; fewer for a pair that is spent."""
        self.answer_tables: list[Tensor] = []
        self.told: list[Told] = []
        self.spent: set[int] = set()
        self.num_rounds = 0
        self.num_expansions = 0
        self.log_joint = factorised(self.priors)
        self._pairs: list[int] = []
        self._bank: Bank | None = None

    # Pairs.

    def pair(self, number: int) -> tuple[Question, User]:
        question, user = divmod(number, len(self.case.users))
        return self.questions[question], self.case.users[user]

    def pairs_of(self, questions: Sequence[int]) -> list[int]:
        """Return the numbers of these questions' pairs: question by question, user by user."""
        return [
            question * len(self.case.users) + user for question in questions for user in range(len(self.case.users))
        ]

    def open_pairs(self) -> list[int]:
        return [pair for pair in self.pairs_of(range(len(self.questions))) if pair not in self.spent]

    def best(self) -> tuple[int, Choice] | None:
        """Return the pair to ask, or None where all were asked."""
        if self._bank is None:
            self._bank = Bank(self.log_joint.shape, [self.tables[pair] for pair in self._pairs])
        costs = [question.cost * user.cost for question, user in map(self.pair, self._pairs)]
        is_open = [pair not in self.spent for pair in self._pairs]
        choice = best(self._bank, self.log_joint, is_open, costs, self.config, self.config.max_asks - len(self.spent))
        return None if choice is None else (self._pairs[choice.place], choice)

    # Changes.

    def add_questions(self, questions: Sequence[Question]) -> list[int]:
        """Add questions, whose tables are still missing, and return the numbers of their pairs."""
        self.questions.extend(questions)
        self._renew_bank()
        return self.pairs_of(range(len(self.questions) - len(questions), len(self.questions)))

    def add_tables(self, pair: int, tables: Sequence[Table]) -> None:
        """Add a pair's tables for the dimensions that it has none for."""
        own = self.tables.setdefault(pair, [])
        question, _ = self.pair(pair)
        for table, dimension in zip(tables, self.dimensions[len(own) :], strict=True):
            own.append(table_tensor(table, dimension, len(question.choices)))

    def add_answer_tables(self, tables: Sequence[Table]) -> None:
        missing = self.dimensions[len(self.answer_tables) :]
        for table, dimension in zip(tables, missing, strict=True):
            self.answer_tables.append(table_tensor(table, dimension, len(self.case.options or ())))

    def add_dimension(self, dimension: Dimension, prior: Row) -> None:
        self.dimensions.append(dimension)
        self.priors.append(row_tensor(prior, len(dimension.values)).tolist())
        self.log_joint = expand(self.log_joint, self.priors[-1])
        self.num_expansions += 1
        self._renew_bank()

    def _renew_bank(self) -> None:
        # The pairs are fixed now, though the bank is built when it is needed: a run that goes on from a trace then
        # has the same pairs in it as one that was never stopped, and the same numbers to the last bit.
        self._pairs, self._bank = self.open_pairs(), None

    def tell(self, pair: int, answer: str, omega: Row) -> None:
        """Update the belief by an answer."""
        self.told.append(Told(pair, answer, omega, len(self.dimensions)))
        self.log_joint = self._updated(self.log_joint, self.told[-1])

    def correct(self, number: int, answer: str, omega: Row) -> None:
        """Replace an earlier answer."""
        told = self.told[number]
        self.told[number] = Told(told.pair, answer, omega, told.num_dimensions)
        self.rebuild()

    def replay(self) -> None:
        """Let all past answers speak of all dimensions, the later ones too."""
        for told in self.told:
            told.num_dimensions = len(self.dimensions)
        self.rebuild()

    def rebuild(self) -> None:
        """Compute the belief afresh from the priors and all answers."""
        self.log_joint = factorised(self.priors)
        for told in self.told:
            self.log_joint = self._updated(self.log_joint, told)

    def _updated(self, log_joint: Tensor, told: Told) -> Tensor:
        omega = row_tensor(told.omega, len(self.pair(told.pair)[0].choices), zeros=True).tolist()
        return update(log_joint, state_likelihood(self.tables[told.pair][: told.num_dimensions]), omega)

    # What follows.

    @property
    def log(self) -> tuple[Exchange, ...]:
        return tuple(Exchange(*self.pair(told.pair), told.answer) for told in self.told)

    @property
    def gap(self) -> float:
        """How far the entropy is above that of a belief which would be certain enough, in nats."""
        return max(0.0, entropy(self.log_joint) - target_entropy(self.config.alpha, self.log_joint.numel()))

    def is_certain(self) -> bool:
        """Whether to stop: by the options where there are some, else by the share of certain dimensions."""
        if self.case.options is None:
            return certain_rate(marginals(self.log_joint), self.config.alpha) >= self.config.beta
        return float(answer_posterior(self.log_joint, self.answer_tables).max()) >= 1 - self.config.alpha

    def can_expand(self) -> bool:
        return can_expand(self.log_joint.numel(), self.config.max_values, self.config.max_states)

    def uncertain(self, num: int) -> list[Dimension]:
        """Return the dimensions of highest entropy, most uncertain first."""
        rows = marginals(self.log_joint)
        entropies = [entropy(torch.tensor(row, dtype=torch.float64).log()) for row in rows]
        order = sorted(range(len(rows)), key=lambda axis: -entropies[axis])
        return [self.dimensions[axis] for axis in order[:num]]

    def snapshot(self) -> Snapshot:
        with_options = self.case.options is not None
        options = tuple(answer_posterior(self.log_joint, self.answer_tables).tolist()) if with_options else None
        places = zip(self.dimensions, likeliest(self.log_joint), strict=True)
        return Snapshot(
            num_rounds=self.num_rounds,
            num_asks=len(self.spent),
            num_expansions=self.num_expansions,
            dimensions=tuple(self.dimensions),
            marginals=tuple(map(tuple, marginals(self.log_joint))),
            state=tuple((dimension, dimension.values[place]) for dimension, place in places),
            entropy=entropy(self.log_joint),
            option_probabilities=options,
            log=self.log,
            log_joint=self.log_joint,
        )


def row_tensor(row: Row, size: int, zeros: bool = False) -> Tensor:
    """Return a row as (size) in float64. Raises ValueError for what is no distribution of that size."""
    values = torch.tensor(row.probabilities, dtype=torch.float64)
    lowest_fits = bool((values >= 0).all() if zeros else (values > 0).all())
    if values.shape != (size,) or not lowest_fits or abs(float(values.sum()) - 1) > 1e-6:
        bound = "0 or more" if zeros else "positive"
        raise ValueError(f"expected {size} {bound} probabilities that sum to 1, found {row.probabilities}")
    return values / values.sum()


def table_tensor(table: Table, dimension: Dimension, size: int) -> Tensor:
    """Return a table as (n_j, size) in float64; errors as in `row_tensor`."""
    if len(table) != len(dimension.values):
        raise ValueError(
            f"the dimension '{dimension.name}' has {len(dimension.values)} values, its table {len(table)}"
        )
    return torch.stack([row_tensor(row, size) for row in table])
