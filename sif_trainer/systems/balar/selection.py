"""Which question to put to whom: the information of every open pair at once, and whether to expand instead.

    bank = Bank(shape=(4, 4, 4), tables=[...])        # one entry per pair, one table per dimension
    information = bank.information(log_joint)         # (num_pairs), nats
    best(bank, log_joint, is_open, costs, config, asks_left)

Beyond the paper: `lookahead=2` adds what the best next question is expected to tell, and `cost_power` divides by cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sif_trainer.systems.balar.config import BalarConfig


class Choice(NamedTuple):
    """The pair to ask, and what is known about it."""

    place: int
    """In the bank."""
    information: float
    """Of the pair, in nats."""
    most_information: float
    """Of any open pair: the same, unless costs or the lookahead prefer another."""


class Bank:
    """The state likelihoods of many (question, user) pairs in one tensor, short choice lists padded with zeros."""

    def __init__(self, shape: Sequence[int], tables: Sequence[Sequence[Tensor]]) -> None:
        """Build from tables[pair][dimension] of (n_j, num_choices)."""
        sizes = [pair[0].shape[1] for pair in tables]
        num_choices = max(sizes, default=1)
        self.mask = torch.arange(num_choices) < torch.tensor(sizes, dtype=torch.long).reshape(-1, 1)
        total = torch.zeros(len(tables), num_choices, *[1] * len(shape), dtype=torch.float64)
        for axis, size in enumerate(shape):
            padded = torch.ones(len(tables), num_choices, size, dtype=torch.float64)
            for pair, own in enumerate(tables):
                padded[pair, : sizes[pair]] = own[axis].T
            place = [1] * len(shape)
            place[axis] = size
            total = total + padded.log_().reshape(len(tables), num_choices, *place)
        total = total.reshape(len(tables), num_choices, -1)
        total.masked_fill_(~self.mask[..., None], -torch.inf)
        log_likelihood = total.log_softmax(1)
        self.likelihood = log_likelihood.exp()
        """(num_pairs, num_choices, num_states)"""
        self.answer_entropy = -torch.special.xlogy(self.likelihood, self.likelihood).sum(1)
        """(num_pairs, num_states): of the answer, where the state is known."""

    def predict(self, beliefs: Tensor) -> Tensor:
        """Return the probability of each choice, (num_pairs, num_choices, k), under beliefs (num_states, k)."""
        num_pairs, num_choices, num_states = self.likelihood.shape
        return (self.likelihood.reshape(-1, num_states) @ beliefs).reshape(num_pairs, num_choices, -1)

    def information_under(self, beliefs: Tensor) -> Tensor:
        """Return the mutual information of answer and state, (num_pairs, k), under beliefs (num_states, k).

        The entropy of the answer less its mean entropy in a known state: the same as the expected drop of the
        belief's entropy, without a posterior for each answer.
        """
        predicted = self.predict(beliefs)
        whole = -torch.special.xlogy(predicted, predicted).sum(1)
        return (whole - self.answer_entropy @ beliefs).clamp(min=0)

    def information(self, log_joint: Tensor) -> Tensor:
        """Return each pair's mutual information, (num_pairs), in nats."""
        return self.information_under(log_joint.exp().reshape(-1, 1))[:, 0]


def best(
    bank: Bank, log_joint: Tensor, is_open: Sequence[bool], costs: Sequence[float], config: BalarConfig, asks_left: int
) -> Choice | None:
    """Return the open pair of most information per cost, the first of equals; None where no pair is open.

    Args:
        bank: the likelihoods.
        log_joint: the belief.
        is_open: whether each of the bank's pairs may be asked.
        costs: of each pair.
        config: `cost_power`, `lookahead` and its width.
        asks_left: looking ahead is in vain before the last question.
    """
    if not any(is_open):
        return None
    closed = ~torch.tensor(is_open)
    information = bank.information(log_joint).masked_fill(closed, -torch.inf)
    divisor = torch.tensor(costs, dtype=torch.float64) ** config.cost_power
    value = information / divisor
    if config.lookahead == 2 and asks_left > 1:
        value = _two_steps(bank, log_joint, value, divisor, config.lookahead_width)
    place = int(value.argmax())
    return Choice(place, float(information[place]), float(information.max()))


def _two_steps(bank: Bank, log_joint: Tensor, value: Tensor, divisor: Tensor, width: int) -> Tensor:
    """Add the expected value of the best other pair after each answer, for the `width` best pairs; others drop out."""
    belief = log_joint.exp().reshape(-1)
    width = min(width, int(value.isfinite().sum()))
    first = value.argsort(descending=True, stable=True)[:width].sort().values
    joint = bank.likelihood[first] * belief  # (width, num_choices, num_states)
    predicted = joint.sum(-1)
    after = joint / predicted.clamp(min=torch.finfo(torch.float64).tiny)[..., None]
    then = bank.information_under(after.reshape(-1, belief.numel()).T).reshape(-1, *predicted.shape)
    then = then / divisor[:, None, None]
    then[value == -torch.inf] = 0
    then[first, torch.arange(width)] = 0  # a pair is not asked twice
    two_steps = torch.full_like(value, -torch.inf)
    two_steps[first] = value[first] + (predicted * then.amax(0)).sum(1)
    return two_steps


def wants_expansion(gap: float, most_information: float, budget_left: int, kappa: float) -> bool:
    """Whether the questions at hand cannot be expected to close the entropy gap (nats) within the budget."""
    return gap > kappa * most_information * budget_left
