"""ADAP's shells: how many candidates to draw and to verify, round after round, for two prices.

    for shell in islice(shells(1, 10), 3):      # (3, 8, 6), (4, 32, 12), (5, 64, 24)
        ...
    sif adap plan --c-rew 1 --c-ver 10

Shell s holds the integer pairs (a, b), 0 <= a <= b, with 2^s c_min <= c_rew 2^b + c_ver 2^(b-a) < 2^(s+1) c_min; it
draws 2^(b*+1) and verifies up to 6 2^(j*), where b* and j* are the largest b and b - a in it. `shells` has them in
closed form, `enumerated` by looking at every pair, as the definition reads. All comparisons are between fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import count
from typing import NamedTuple, TypeAlias

from sif_trainer.runs.errors import UserError

Cost: TypeAlias = int | float | str | Decimal | Fraction
MOST_DIGITS = 30  # a price is between 1e-30 and 1e30: beyond, rounds have more draws than can be counted
DRAWS, VERIFICATIONS = 2, 6  # the factors of 2^b* and 2^j*; the theory's, and the ones that the experiments use


class Shell(NamedTuple):
    """One round: its number s, its new draws, and its verifications at most."""

    s: int
    num_draws: int
    num_verifications: int


@dataclass(frozen=True)
class Costs:
    """What one draw with its score (`rew`), and one verification (`ver`), cost, in one unit of the user's choice."""

    rew: Fraction
    ver: Fraction

    @classmethod
    def of(cls, c_rew: Cost, c_ver: Cost) -> Costs:
        """Return the costs; a float means the decimal number that it prints as, so 0.1 is a tenth.

        Raises:
            UserError: a cost that is not a positive number, or far from any other.
        """
        return cls(exact(c_rew, "c_rew"), exact(c_ver, "c_ver"))

    def price(self, num_draws: int, num_verifications: int) -> Fraction:
        """Return c_rew draws + c_ver verifications."""
        return self.rew * num_draws + self.ver * num_verifications


def exact(cost: Cost, name: str) -> Fraction:
    """Return a positive cost as a fraction; `name` is for the error."""
    text = str(cost)
    try:
        # 1e999999999, written out in full, would fill the memory: the exponent is looked at before.
        near = "/" in text or abs(Decimal(text).adjusted()) <= MOST_DIGITS
        value = Fraction(text) if near else None
    except (ValueError, InvalidOperation, ZeroDivisionError) as error:
        raise UserError(f"{name} is {text:.40}; it must be a positive number, such as 1, 0.25 or 1/3") from error
    if value is not None and value <= 0:
        raise UserError(f"{name} is {text:.40}; it must be more than 0 (a free step needs no plan: take it always)")
    if value is None or not Fraction(1, 10**MOST_DIGITS) <= value <= 10**MOST_DIGITS:
        raise UserError(
            f"{name} is {text:.40}; it must be between 1e-{MOST_DIGITS} and 1e{MOST_DIGITS}, in a unit of your choice"
        )
    return value


def shells(costs: Costs, c_min: Cost | None = None) -> Iterator[Shell]:
    """Yield the non-empty shells without end. `c_min` is min(c_rew, c_ver) unless given; spec section 3.1."""
    return (shell(number, costs, c_min) for number in count())


def shell(number: int, costs: Costs, c_min: Cost | None = None) -> Shell:
    """Return a shell in closed form; `number` counts the non-empty ones from 0.

    Shell s is empty until c_rew + c_ver < 2^(s+1) c_min, and never again.
    """
    unit = min(costs.rew, costs.ver) if c_min is None else exact(c_min, "c_min")
    both = costs.rew + costs.ver
    s = max(0, math.floor(both / unit).bit_length() - 1) + number
    top = unit * 2 ** (s + 1)
    b, j = _largest_power((top - costs.ver) / costs.rew), _largest_power(top / both)
    return Shell(s, DRAWS * 2**b, VERIFICATIONS * 2**j)


def _largest_power(below: Fraction) -> int:
    """Return the largest n with 2^n < below, for below > 1."""
    n = math.ceil(below) - 1
    return n.bit_length() - 1


def enumerated(s: int, costs: Costs, c_min: Cost | None = None) -> Shell | None:
    """Return shell s by its definition, pair by pair, or None when it is empty."""
    unit = min(costs.rew, costs.ver) if c_min is None else exact(c_min, "c_min")
    low, high = unit * 2**s, unit * 2 ** (s + 1)
    pairs = []
    b = 0
    while costs.rew * 2**b < high:
        pairs += [(a, b) for a in range(b + 1) if low <= costs.rew * 2**b + costs.ver * 2 ** (b - a) < high]
        b += 1
    if not pairs:
        return None
    return Shell(s, DRAWS * 2 ** max(b for _, b in pairs), VERIFICATIONS * 2 ** max(b - a for a, b in pairs))
