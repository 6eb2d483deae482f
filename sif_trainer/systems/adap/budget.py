"""When a search stops, and what it has spent: `Budget` (the user's limits) and `Ledger` (the account).

    Budget(cost=500, draws=128)          # None is no limit
    Ledger(Costs.of(1, 10), measure="seconds")

Costs are given, or measured as the search runs: in seconds (drawing with scoring, and verifying), or in generated
tokens (draws; a verification then costs c_ver tokens as given). Measured prices re-plan the next round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal, TypeAlias

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.parts import Candidate, Verdict
from sif_trainer.systems.adap.schedule import Costs

Measure: TypeAlias = Literal["given", "seconds", "tokens"]


@dataclass(frozen=True)
class Budget:
    """The most that a search may spend, draw, verify and play; `seconds` of wall time are looked at between rounds."""

    cost: float | None = None
    draws: int | None = None
    verifications: int | None = None
    rounds: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 <= value < math.inf:
                raise UserError(f"the budget's {field.name} is {value}; it must be 0 or more, or None for no limit")


class Ledger:
    """What one search has spent so far, and the prices that its next round is planned with."""

    def __init__(self, costs: Costs, measure: Measure = "given") -> None:
        self._given, self._measure = costs, measure
        self.num_draws = self.num_verifications = 0
        self.rew = self.ver = Fraction(0)

    @property
    def cost(self) -> Fraction:
        return self.rew + self.ver

    @property
    def prices(self) -> Costs:
        """The costs as given, or the means measured so far where there are any."""
        if self._measure == "given":
            return self._given
        rew = self.rew / self.num_draws if self.rew else self._given.rew
        ver = self.ver / self.num_verifications if self.ver else self._given.ver
        return Costs(rew, ver)

    def drew(self, candidates: Sequence[Candidate], scoring_seconds: float) -> None:
        """Enter draws, scored."""
        self.num_draws += len(candidates)
        if self._measure == "given":
            self.rew += self._given.rew * len(candidates)
        elif self._measure == "tokens":
            self.rew += sum(c.sample.num_tokens if c.sample else 0 for c in candidates)
        else:
            self.rew += Fraction(sum(c.seconds for c in candidates) + scoring_seconds)

    def verified(self, verdicts: Sequence[Verdict]) -> None:
        """Enter verifications; one that was cancelled half-way was begun, and counts."""
        self.num_verifications += len(verdicts)
        if self._measure == "seconds":
            self.ver += Fraction(sum(verdict.seconds for verdict in verdicts))
        else:
            self.ver += self._given.ver * len(verdicts)

    def affordable(self, num_draws: int, num_verifications: int, budget: Budget) -> tuple[int, int]:
        """Return the part of a round that the budget still pays for.

        A round that is too dear keeps its proportion of draws to the whole, and all that is left then goes into
        verifying; draws that no verification can follow are not made.
        """
        if budget.draws is not None:
            num_draws = min(num_draws, budget.draws - self.num_draws)
        if budget.verifications is not None:
            num_verifications = min(num_verifications, budget.verifications - self.num_verifications)
        prices = self.prices
        price = prices.price(num_draws, num_verifications)
        if budget.cost is None or price <= (left := Fraction(str(budget.cost)) - self.cost):
            return num_draws, num_verifications
        if left < prices.ver:
            return 0, 0
        num_draws = min(int(num_draws * left / price), int((left - prices.ver) / prices.rew))
        rest = int((left - num_draws * prices.rew) / prices.ver)
        if budget.verifications is not None:
            rest = min(rest, budget.verifications - self.num_verifications)
        return num_draws, rest
