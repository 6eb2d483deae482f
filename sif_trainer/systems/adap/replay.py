"""ADAP on recorded pools: draws, verifications and success of every trial, in both accountings.

    run = replay(trials, rounds_of("adap", costs), costs)
    run.cost("sequential").mean()

A trial goes on with the recorded samples that are left; when all are drawn, the rounds go on verifying, so that every
problem with a correct sample ends in success and its cost is censored at n (c_rew + c_ver). A live search draws on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.trials import Ints, Trials

ACCOUNTINGS = ("batch", "sequential")


@dataclass(frozen=True)
class Spent:
    """What each trial cost [T].

    Attributes:
        num_batch: verifications when a round's are made, and paid, all at once (as the published replay counts).
        num_sequential: verifications from the best score down, until the first pass.
    """

    num_draws: Ints
    num_batch: Ints
    num_sequential: Ints
    success: npt.NDArray[np.bool_]

    def num_verifications(self, accounting: str) -> Ints:
        return self.num_batch if accounting == "batch" else self.num_sequential

    def cost(self, accounting: str, costs: Costs) -> npt.NDArray[np.float64]:
        return float(costs.rew) * self.num_draws + float(costs.ver) * self.num_verifications(accounting)


def replay(trials: Trials, rounds: Iterable[tuple[int, int]]) -> Spent:
    """Play rounds of (new draws, verifications at most) on all trials at once; spec sections 3.2 and 3.3.

    Rounds end when every trial has succeeded or has verified all of its samples.
    """
    place, correct = trials.by_rank()
    total = trials.num_trials
    draws, batch, sequential = (np.zeros(total, dtype=np.int64) for _ in range(3))
    success = np.zeros(total, dtype=bool)
    live = np.arange(total)
    waiting = place < trials.width  # not verified yet, best rank first
    drawn = 0
    for num_draws, num_verifications in rounds:
        drawn += num_draws
        present = waiting & (place < drawn)
        number = np.cumsum(present, axis=1)  # from the best down
        chosen = present & (number <= num_verifications)
        hits = chosen & correct
        won = hits.any(axis=1)
        taken = chosen.sum(axis=1)
        first = number[np.arange(len(live)), hits.argmax(axis=1)]
        draws[live] = np.minimum(drawn, trials.length[live])
        batch[live] += taken
        sequential[live] += np.where(won, first, taken)
        success[live] = won
        waiting &= ~chosen
        going = ~won & waiting.any(axis=1)
        live, waiting, place, correct = live[going], waiting[going], place[going], correct[going]
        if not len(live):
            break
    return Spent(draws, batch, sequential, success)
