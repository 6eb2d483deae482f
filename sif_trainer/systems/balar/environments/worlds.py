"""Synthetic worlds: cases whose true tables are known, so that the whole loop runs without a language model.

    world = draw_world(SIZES["large"], seed=3)
    trajectory = run_case(world.case, WorldElicitor(world, config), WorldUser(world), config)

A world is made of labels, as the agent's own tables are: the prior of every value, the row of every (question, user,
value) and of every value over the options has a label per cell, and the truth is what these labels mean. The hidden
state is drawn from the prior, and users answer by chance, as the state likelihood says (the product over dimensions,
renormalised). Which of a question's cells matter is drawn too, so that a bank holds dull questions as well as sharp
ones. The answer of a state is the option that its answer rows favour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.parts import Case, Dimension, Log, Question, Row, Table, Triple, User

LABELS = ("likely", "neutral", "unlikely")
NEUTRAL = 1
WEIGHTS = (0.9, 0.3, 0.03)
RELEVANCE = 0.3
"""The chance that a dimension matters to a question as one user answers it."""

Array: TypeAlias = np.ndarray


class Size(NamedTuple):
    """How large the worlds are."""

    num_dimensions: int
    num_values: int
    num_questions: int
    num_choices: int
    num_users: int
    num_options: int

    @property
    def num_states(self) -> int:
        return int(self.num_values**self.num_dimensions)


SIZES = {
    "small": Size(3, 3, 12, 3, 1, 3),
    "medium": Size(4, 4, 10, 4, 2, 4),
    "large": Size(5, 4, 10, 4, 5, 5),  # a detective case's: 1,024 states, 50 pairs, 5 options
}


@dataclass(frozen=True)
class World:
    """One case with its truth. Label arrays hold places in `LABELS`."""

    case: Case
    dimensions: tuple[Dimension, ...]
    questions: tuple[Question, ...]
    priors: Array
    """(dimensions, values)"""
    tables: Array
    """(questions, users, dimensions, values, choices)"""
    answers: Array
    """(dimensions, values, options)"""
    weights: tuple[float, float, float]
    """What the three labels weigh in this world."""
    state: tuple[int, ...]
    """The hidden state: the place of each dimension's value."""
    seed: int

    def rows(self, labels: Array) -> Array:
        """Return the probabilities that labels mean in this world, normalised over the last axis."""
        return normalised(np.asarray(self.weights)[labels])

    @cached_property
    def likelihoods(self) -> Array:
        """The true state likelihoods: (questions, users, states, choices), states with the last dimension fastest."""
        return normalised(_over_states(self.rows(self.tables)))

    @cached_property
    def prior(self) -> Array:
        """The true prior of each state."""
        return _over_states(self.rows(self.priors)[..., None])[..., 0]

    @cached_property
    def answer_of(self) -> Array:
        """The place of the right option of each state."""
        return favoured(_over_states(self.rows(self.answers)))

    @property
    def answer(self) -> str:
        """The right option."""
        assert self.case.options is not None
        return self.case.options[self.answer_of[state_number(self.state, self.priors.shape[1])]]

    def reply(self, user: User, question: Question) -> str:
        """Return what the user answers: the same whenever it is asked."""
        q, u = self.questions.index(question), self.case.users.index(user)
        chances = self.likelihoods[q, u, state_number(self.state, self.priors.shape[1])]
        generator = np.random.default_rng([self.seed, 1 + q, u])
        return question.choices[generator.choice(len(chances), p=chances)]


def draw_world(size: Size, seed: int, weights: tuple[float, float, float] = WEIGHTS) -> World:
    """Draw tables, state and answer; the same seed gives the same world."""
    generator = np.random.default_rng([seed, 0])
    p, n, num_questions, num_choices, num_users, num_options = size
    dimensions = tuple(
        Dimension(f"dimension {j + 1}", tuple(f"value {k + 1} of {j + 1}" for k in range(n))) for j in range(p)
    )
    choices = tuple(f"choice {y + 1}" for y in range(num_choices))
    users = tuple(User(f"user {u + 1}", f"This is user {u + 1} of a synthetic world.") for u in range(num_users))
    options = tuple(f"option {a + 1}" for a in range(num_options))
    tables = generator.integers(0, len(LABELS), (num_questions, num_users, p, n, num_choices))
    dull = generator.random((num_questions, num_users, p)) >= RELEVANCE
    tables[dull] = NEUTRAL
    priors = generator.integers(0, NEUTRAL + 1, (p, n))
    world = World(
        case=Case(f"world-{seed}", "Which option is it?", "This world is synthetic.", users, options),
        dimensions=dimensions,
        questions=tuple(Question(f"question {q + 1}", choices) for q in range(num_questions)),
        priors=priors,
        tables=tables,
        answers=generator.integers(0, len(LABELS), (p, n, num_options)),
        weights=weights,
        state=(0,) * p,
        seed=seed,
    )
    state = tuple(int(generator.choice(n, p=row)) for row in world.rows(priors))
    return replace(world, state=state)


def mislabelled(world: World, noise: float) -> World:
    """Return the world as somebody sees it who takes each label for one of the two others with chance `noise`."""
    generator = np.random.default_rng([world.seed, 0, 1])

    def seen(labels: Array) -> Array:
        wrong = generator.random(labels.shape) < noise
        shift = generator.integers(1, len(LABELS), labels.shape)
        return np.where(wrong, (labels + shift) % len(LABELS), labels)

    return replace(world, priors=seen(world.priors), tables=seen(world.tables), answers=seen(world.answers))


class WorldUser:
    """The environment of a world: answers are drawn from the true state likelihood, in a choice's words."""

    def __init__(self, world: World) -> None:
        self._world = world

    def ask(self, case: Case, user: User, question: Question, free: bool) -> str:
        return self._world.reply(user, question)


class WorldElicitor:
    """Supplies a world's tables as labels, exact or with noise, and what they weigh in the agent's configuration.

    The agent starts with the first `num_dimensions` and `num_questions` of its configuration; the rest is what
    expansion finds. Answers are mapped to their choice for certain, and the final answer is the right one of the state
    that the agent believes in.
    """

    concurrent = False

    def __init__(self, world: World, config: BalarConfig, noise: float = 0.0) -> None:
        self._world, self._config = world, config
        self._seen = mislabelled(world, noise)
        self._weights = np.array([config.likely, config.neutral, config.unlikely])

    def _row(self, labels: Array) -> Row:
        weights = self._weights[labels]
        return Row(tuple((weights / weights.sum()).tolist()), tuple(LABELS[label] for label in labels))

    def _table(self, labels: Array) -> Table:
        return tuple(map(self._row, labels))

    def dimensions(self, case: Case) -> list[Dimension]:
        return list(self._world.dimensions[: self._config.num_dimensions])

    def priors(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> list[Row]:
        return [self._row(self._seen.priors[self._world.dimensions.index(own)]) for own in dimensions]

    def questions(self, case: Case, dimensions: Sequence[Dimension]) -> list[Question]:
        return list(self._world.questions[: self._config.num_questions])

    def tables(self, case: Case, triples: Sequence[Triple], log: Log) -> list[Table]:
        world = self._world
        places = [
            (world.questions.index(question), case.users.index(user), world.dimensions.index(dimension))
            for question, user, dimension in triples
        ]
        return [self._table(self._seen.tables[place]) for place in places]

    def answer_tables(self, case: Case, dimensions: Sequence[Dimension]) -> list[Table]:
        return [self._table(self._seen.answers[self._world.dimensions.index(own)]) for own in dimensions]

    def soft_map(self, case: Case, question: Question, answer: str) -> Row:
        return Row(tuple(float(choice == answer) for choice in question.choices))

    def new_dimension(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> Dimension | None:
        return next((found for found in self._world.dimensions if found not in dimensions), None)

    def new_questions(
        self, case: Case, dimensions: Sequence[Dimension], known: Sequence[Question], log: Log
    ) -> list[Question]:
        unknown = [question for question in self._world.questions if question not in known]
        return unknown[: self._config.num_new_questions]

    def final_answer(self, case: Case, state: Sequence[tuple[Dimension, str]], log: Log) -> str:
        world = self._world
        rows = [world.answers[world.dimensions.index(own), own.values.index(value)] for own, value in state]
        assert case.options is not None
        return case.options[favoured(world.rows(np.stack(rows)).prod(0))]


def normalised(weights: Array) -> Array:
    """Return weights over their sum along the last axis."""
    result: Array = weights / weights.sum(-1, keepdims=True)
    return result


def favoured(products: Array) -> Array:
    """Return the option (last axis) of the highest product of label weights; the first of equals, which are many."""
    places: Array = np.log(products).round(9).argmax(-1)
    return places


def state_number(state: Sequence[int], num_values: int) -> int:
    """Return a state's place when the last dimension runs fastest."""
    number = 0
    for value in state:
        number = number * num_values + value
    return number


def _over_states(rows: Array) -> Array:
    """Multiply (..., dimensions, values, alternatives) over dimensions: (..., states, alternatives)."""
    product = rows[..., 0, :, :]
    for j in range(1, rows.shape[-3]):
        product = (product[..., :, None, :] * rows[..., j, None, :, :]).reshape(*rows.shape[:-3], -1, rows.shape[-1])
    return product
