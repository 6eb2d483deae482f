"""What the agent believes: a dense joint distribution over the values of all dimensions, in log space.

    log_joint = factorised([[0.385, 0.615], [0.53, 0.33, 0.13]])          # (2, 3), float64
    log_joint = update(log_joint, log_likelihood, omega=[0.9, 0.05, 0.05])
    log_joint = expand(log_joint, [0.4, 0.4, 0.2])                        # (2, 3, 3)

One axis per dimension in the order of their making; a state is one cell. Differs from the released code in one thing:
the bound on the number of states holds for the first dimensions too (`num_within`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

LABELS = ("likely", "neutral", "unlikely")


def as_probabilities(labels: Sequence[str], weights: Mapping[str, float]) -> tuple[float, ...]:
    """Return each label's weight as a share of their sum (section 4.1, steps 2, 4 and 5)."""
    values = [weights[label] for label in labels]
    return tuple(value / sum(values) for value in values)


def factorised(priors: Sequence[Sequence[float]]) -> Tensor:
    """Return the log joint (n_1, ..., n_p) of independent dimensions, from a row of probabilities for each."""
    log_joint = torch.zeros((), dtype=torch.float64)
    for prior in priors:
        log_joint = expand(log_joint, prior)
    return log_joint


def expand(log_joint: Tensor, prior: Sequence[float]) -> Tensor:
    """Add an independent dimension as the last axis (section 4.5): marginals stay, entropies add."""
    return log_joint[..., None] + torch.tensor(prior, dtype=torch.float64).log()


def update(log_joint: Tensor, log_likelihood: Tensor, omega: Sequence[float]) -> Tensor:
    """Return the log posterior after soft evidence (section 4.4).

    Args:
        log_joint: log probabilities (n_1, ..., n_p).
        log_likelihood: of each choice in each state, (num_choices, n_1, ..., n_p), or with only the first axes of
            `log_joint`: the evidence is then silent about the later dimensions.
        omega: a probability for each choice; all on one is an ordinary Bayes step, equals change nothing.
    """
    log_omega = torch.tensor(omega, dtype=torch.float64).log()
    log_evidence = torch.logsumexp(log_likelihood + log_omega.view(-1, *[1] * (log_likelihood.dim() - 1)), 0)
    missing = log_joint.dim() - log_evidence.dim()
    log_joint = log_joint + log_evidence.reshape(*log_evidence.shape, *[1] * missing)
    return log_joint - torch.logsumexp(log_joint.flatten(), 0)


def entropy(log_p: Tensor) -> float:
    """Return the entropy of a distribution of any shape, in nats; impossible cells count nothing."""
    return -float(torch.special.xlogy(log_p.exp(), log_p.exp()).sum())


def marginals(log_joint: Tensor) -> list[list[float]]:
    """Return each dimension's distribution."""
    axes = range(log_joint.dim())
    return [_marginal(log_joint.exp(), axis).tolist() for axis in axes]


def _marginal(joint: Tensor, axis: int) -> Tensor:
    return joint.movedim(axis, 0).flatten(1).sum(1) if joint.dim() > 1 else joint


def likeliest(log_joint: Tensor) -> tuple[int, ...]:
    """Return the value of each dimension in the most probable state, the first of equals (joint, not marginal)."""
    place = int(log_joint.flatten().argmax())
    return tuple(int(index) for index in torch.unravel_index(torch.tensor(place), log_joint.shape))


def num_within(sizes: Sequence[int], max_states: int) -> int:
    """Return how many of the dimensions, from the first, span fewer than `max_states` states together."""
    num_states = 1
    for number, size in enumerate(sizes):
        num_states *= size
        if num_states >= max_states:
            return number
    return len(sizes)


def can_expand(num_states: int, max_values: int, max_states: int) -> bool:
    """Whether another dimension of the most values stays below the bound on states (strictly)."""
    return num_states * max_values < max_states


def target_entropy(alpha: float, num_states: int) -> float:
    """Return the entropy, in nats, of a belief of 1 - alpha in one state and alpha spread over the others."""
    if num_states == 1:
        return 0.0
    return -(1 - alpha) * math.log1p(-alpha) - alpha * math.log(alpha / (num_states - 1))


def answer_posterior(log_joint: Tensor, tables: Sequence[Tensor]) -> Tensor:
    """Return the probability of each option, (num_options).

    Args:
        log_joint: log probabilities (n_1, ..., n_p).
        tables: for each dimension (n_j, num_options), rows that sum to 1. Their product is not normalised per state,
            unlike a question's likelihoods; one normalisation comes at the end.
    """
    return torch.softmax(torch.logsumexp((product(tables) + log_joint).flatten(1), 1), 0)


def certain_rate(rows: Sequence[Sequence[float]], alpha: float) -> float:
    """Return the share of dimensions whose most probable value has 1 - alpha or more."""
    return sum(max(row) >= 1 - alpha for row in rows) / len(rows)


def product(tables: Sequence[Tensor]) -> Tensor:
    """Return the log of the product of tables (n_j, num_choices) in each state: (num_choices, n_1, ..., n_p)."""
    total = torch.zeros(tables[0].shape[1], *[1] * len(tables), dtype=torch.float64)
    for axis, table in enumerate(tables):
        shape = [1] * len(tables)
        shape[axis] = len(table)
        total = total + table.log().T.reshape(-1, *shape)
    return total


def state_likelihood(tables: Sequence[Tensor]) -> Tensor:
    """Return the log probability of each choice in each state, (num_choices, n_1, ..., n_p), a product of experts.

    Args:
        tables: one question and user's table for each dimension, (n_j, num_choices), all positive, rows sum to 1.
    """
    return product(tables).log_softmax(0)
