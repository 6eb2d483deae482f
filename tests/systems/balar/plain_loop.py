"""BALAR's selection and update as one would write them first: loops over states and choices, numbers in lists.

The yardstick of `benchmarks/balar.py`, and the oracle of a test. `tables[pair][dimension][value][choice]`.
"""

from __future__ import annotations

import itertools
import math


def states(shape):
    return list(itertools.product(*map(range, shape)))


def likelihoods(shape, tables):
    """Return [state][choice] for one pair."""
    rows = []
    for state in states(shape):
        weights = [1.0] * len(tables[0][0])
        for table, value in zip(tables, state, strict=True):
            for choice, p in enumerate(table[value]):
                weights[choice] *= p
        total = sum(weights)
        rows.append([weight / total for weight in weights])
    return rows


def entropy(belief):
    return -sum(p * math.log(p) for p in belief if p > 0)


def information(belief, rows):
    """Return the expected drop of entropy, nats, from a posterior for each choice."""
    before = entropy(belief)
    after = 0.0
    for choice in range(len(rows[0])):
        joint = [p * row[choice] for p, row in zip(belief, rows, strict=True)]
        total = sum(joint)
        after += total * entropy([value / total for value in joint])
    return before - after


def best(belief, pairs):
    """Return the place of the pair of most information, and all of it."""
    found = [information(belief, rows) for rows in pairs]
    return found.index(max(found)), found


def update(belief, rows, omega):
    joint = [p * sum(w * y for w, y in zip(omega, row, strict=True)) for p, row in zip(belief, rows, strict=True)]
    total = sum(joint)
    return [value / total for value in joint]
