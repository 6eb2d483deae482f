"""What a search is measured against, on the very same draws: fixed numbers at the same mean cost.

    settle(problem, sampler, scorer, verifier, journal, num_draws=58, num_verifications=1)

*Best-of-N* draws N and verifies the best-scored one. *Unranked* draws N and verifies all, which needs no scores. N is
the least that costs what the search does in the mean: it gets the benefit of rounding.
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

from sif_trainer.systems.adap.journal import Journal
from sif_trainer.systems.adap.parts import Problem, Sampler, Scorer, Verifier
from sif_trainer.systems.adap.schedule import Costs


class Fixed(NamedTuple):
    """How many are drawn, and how many of them verified."""

    num_draws: int
    num_verifications: int


def at_equal_cost(costs: Costs, mean_cost: float) -> dict[str, Fixed]:
    """Return best-of-N and unranked for a search's mean cost: the smallest N that costs no less."""
    best = max(1, math.ceil((mean_cost - float(costs.ver)) / float(costs.rew)))
    unranked = max(1, math.ceil(mean_cost / float(costs.rew + costs.ver)))
    return {"best_of_n": Fixed(best, 1), "unranked": Fixed(unranked, unranked)}


def settle(
    problem: Problem, sampler: Sampler, scorer: Scorer, verifier: Verifier, journal: Journal, numbers: Fixed
) -> bool:
    """Return whether one of the best-scored `num_verifications` of `num_draws` passes; draws go by the journal."""
    drawn = journal.draw(problem, sampler, numbers.num_draws, 0)
    scores, _ = journal.score(problem, scorer, drawn)
    keys = [-float("inf") if score is None else score for score in scores]
    best_first = sorted(drawn, key=lambda candidate: (-keys[candidate.index], candidate.index))
    cancel = threading.Event()
    return any(
        journal.verify(problem, verifier, candidate, cancel).passed
        for candidate in best_first[: numbers.num_verifications]
    )
