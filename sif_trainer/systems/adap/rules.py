"""Which rounds a search plays: ADAP's shells, or a rule of ours under its own name.

    rounds("adap", Costs.of(1, 10))          # (8, 6), (32, 12), (64, 24), ...
    rounds("balanced", Costs.of(1, 10))      # (4, 1), (3, 1), (3, 1), (4, 1), ...

*Balanced* is not the paper's: verify the best candidate so far whenever the verifications, this one included, have
cost at most three times what the draws have (the proportion of the paper's constants, 6 to 2); else draw. No round is
long, so that little is drawn in vain. It has no theorem; docs/adap.md has its numbers beside ADAP's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count
from typing import TypeAlias

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.systems.adap.schedule import DRAWS, VERIFICATIONS, Costs, shell

Round: TypeAlias = tuple[int, int]
BALANCE = Fraction(VERIFICATIONS, DRAWS)  # verifications may cost so many times what the draws do: 3


def adap(costs: Costs, number: int) -> Round:
    """Return (new draws, verifications at most) of a shell, counted from 0 over the non-empty ones."""
    return shell(number, costs)[1:]


def balanced(costs: Costs, number: int) -> Round:
    """Return the draws that verification number `number` (from 0) waits for, and that one verification."""

    def needed(num_verifications: int) -> int:
        return max(1, math.ceil(num_verifications * costs.ver / (BALANCE * costs.rew)))

    return needed(number + 1) - (needed(number) if number else 0), 1


RULES: dict[str, Callable[[Costs, int], Round]] = {"adap": adap, "balanced": balanced}


def play(rule: str, costs: Costs, number: int) -> Round:
    """Return one round of a rule; an unknown rule is an error."""
    if rule not in RULES:
        raise UserError(f"no rule '{rule}'{nearest(rule, RULES)}; there are {', '.join(RULES)}")
    return RULES[rule](costs, number)


def rounds(rule: str, costs: Costs) -> Iterator[Round]:
    """Yield a rule's rounds without end."""
    return (play(rule, costs, number) for number in count())
