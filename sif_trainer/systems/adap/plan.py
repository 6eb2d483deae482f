"""The rounds of a search before it begins, with what they cost so far and what they mean.

sif adap plan --c-rew 1 --c-ver 10
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.rules import rounds
from sif_trainer.systems.adap.schedule import Costs, shells

MOST_ROUNDS = 100


def plan(costs: Costs, num_rounds: int, rule: str = "adap") -> list[dict[str, Any]]:
    """Return the first rounds: new draws, verifications at most, both in total, and the cost by the end of the round.

    `shell` is the paper's s. Verifications are bounded by the candidates there are, in a round and in total.

    Raises:
        UserError: fewer than one round or more than `MOST_ROUNDS`, an unknown rule.
    """
    if not 1 <= num_rounds <= MOST_ROUNDS:
        raise UserError(f"the number of rounds is {num_rounds}; it must be between 1 and {MOST_ROUNDS}: rounds double")
    numbers = [shell.s for shell in islice(shells(costs), num_rounds)] if rule == "adap" else [None] * num_rounds
    rows: list[dict[str, Any]] = []
    draws = verified = 0
    for number, (num_draws, num_verifications) in zip(numbers, rounds(rule, costs), strict=False):
        draws += num_draws
        possible = min(num_verifications, draws - verified)
        verified += possible
        rows.append(
            {
                "shell": number,
                "num_draws": num_draws,
                "num_verifications": num_verifications,
                "num_verified": possible,
                "total_draws": draws,
                "total_verifications": verified,
                "total_cost": _number(costs.price(draws, verified)),
            }
        )
    return rows


def describe(rows: Sequence[Mapping[str, Any]], costs: Costs, rule: str = "adap") -> str:
    """Return the plan as a table of text, and what it says about scores and verifications."""
    lines = [
        f"{'shell':>6}{'new draws':>11}{'verify up to':>14}{'all draws':>11}{'all verified':>14}{'cost so far':>14}"
    ]
    for row in rows:
        shell = "" if row["shell"] is None else row["shell"]
        lines.append(
            f"{shell:>6}{row['num_draws']:>11}{row['num_verifications']:>14}{row['total_draws']:>11}"
            f"{row['total_verifications']:>14}{row['total_cost']:>14g}"
        )
    return "\n".join([*lines, "", *_meaning(rows, costs, rule)])


def _meaning(rows: Sequence[Mapping[str, Any]], costs: Costs, rule: str) -> list[str]:
    first, last = rows[0], rows[-1]
    lines = []
    if rule == "adap":
        empty = first["shell"]
        skipped = {0: "", 1: "shell 0 is empty; "}.get(empty, f"shells 0 to {empty - 1} are empty; ")
        lines.append(f"{skipped}a round ends the search when one of its candidates passes, else the next one follows.")
    if all(row["total_verifications"] == row["total_draws"] for row in rows):
        lines.append(
            "At these prices every candidate is verified in the round that draws it: scores change only the order."
        )
    else:
        share = last["total_verifications"] / last["total_draws"]
        paid = float(costs.ver * last["total_verifications"]) / last["total_cost"]
        lines.append(
            f"By the last round shown, the best-scored {share:.0%} of the candidates have been verified; "
            f"{paid:.0%} of the cost is verification."
        )
    lines.append("Costs are of whole rounds; verifying one by one, best first, pays less when a candidate passes.")
    return lines


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
