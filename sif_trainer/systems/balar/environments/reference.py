"""What a synthetic world allows: exact Bayes with the true tables, asking greedily or at random, in plain NumPy.

    play(world, greedy, max_asks=25)          # the state that is believed in before and after each question
    is_greedy(world, pairs, states)           # did the loop, which asked these pairs, ask and believe the same?

Shares no code with the loop, which must be a greedy player when it is given the true tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sif_trainer.systems.balar.environments.worlds import Array, World

Choose: TypeAlias = Callable[[Array, Array], Array]
"""From likelihoods (questions, users, states, choices) and belief (states,) to a value of each (question, user)."""

TIE = 1e-9
"""Closer than this is equal."""


class Play(NamedTuple):
    """One player's way through a world."""

    pairs: tuple[tuple[int, int], ...]
    """(question, user), as asked."""
    states: tuple[frozenset[int], ...]
    """The likeliest states before the first question and after each: often several, since labels are few."""
    answers: tuple[str, ...]
    """The right option of the first of them."""


def play(world: World, choose: Choose, max_asks: int) -> Play:
    """Ask until the questions or the bank are spent, always the open pair of highest value, the first of equals."""
    belief = world.prior
    open_pairs = np.ones(world.likelihoods.shape[:2], dtype=bool)
    pairs: list[tuple[int, int]] = []
    states = [_likeliest(belief)]
    while len(pairs) < max_asks and open_pairs.any():
        values = np.where(open_pairs, choose(world.likelihoods, belief), -np.inf)
        q, u = divmod(int(values.argmax()), values.shape[1])
        open_pairs[q, u] = False
        belief = _told(world, belief, q, u)
        pairs.append((q, u))
        states.append(_likeliest(belief))
    assert world.case.options is not None
    answers = [world.case.options[world.answer_of[min(tied)]] for tied in states]
    return Play(tuple(pairs), tuple(states), tuple(answers))


def is_greedy(world: World, pairs: Sequence[tuple[int, int]], states: Sequence[int]) -> bool:
    """Whether each pair was one of the most information, and each state (one more than pairs) one of the likeliest.

    Of pairs or states that are equal but for rounding, any will do.
    """
    belief = world.prior
    open_pairs = np.ones(world.likelihoods.shape[:2], dtype=bool)
    for (q, u), state in zip(pairs, states, strict=False):
        values = np.where(open_pairs, greedy(world.likelihoods, belief), -np.inf)
        if values[q, u] < values.max() - TIE or state not in _likeliest(belief):
            return False
        open_pairs[q, u] = False
        belief = _told(world, belief, q, u)
    return states[-1] in _likeliest(belief)


def greedy(likelihoods: Array, belief: Array) -> Array:
    """Return the mutual information of each pair's answer and the state, in nats, from its definition."""
    predicted = np.einsum("s,qusy->quy", belief, likelihoods)
    information: Array = np.einsum(
        "s,qusy,qusy->qu", belief, likelihoods, np.log(likelihoods / predicted[:, :, None, :])
    )
    return information


def at_random(seed: int) -> Choose:
    """Return a player that asks any open pair."""
    generator = np.random.default_rng(seed)
    return lambda likelihoods, belief: generator.random(likelihoods.shape[:2])


def _told(world: World, belief: Array, q: int, u: int) -> Array:
    """Return the belief after the user's answer."""
    question = world.questions[q]
    belief = belief * world.likelihoods[q, u, :, question.choices.index(world.reply(world.case.users[u], question))]
    result: Array = belief / belief.sum()
    return result


def _likeliest(belief: Array) -> frozenset[int]:
    return frozenset(np.flatnonzero(belief >= belief.max() * (1 - TIE)).tolist())
