"""Replay's trials: recorded problems in random orders, as ranks, so that every rule is a few array operations.

    trials = Trials.of(solvable(pool), num_permutations=10, seed=0)
    trials.first_correct_rank()          # K(M) for every trial and every M

One permutation of a problem is one trial: its samples are "drawn" in that order. Everything a search does depends on
the order of scores only; equal scores rank in the order of their draws, missing ones last. Problems go by id, and one
generator draws all permutations, as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.pools import Recorded

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trials:
    """T trials of P problems, padded to n draws.

    Attributes:
        ids: the problems' ids [P].
        problem: each trial's problem [T].
        length: each trial's samples [T].
        rank: each draw's rank among all of its trial, 0 is the best; n where there is no draw [T, n].
        correct: whether a draw is correct [T, n].
        pass_rate: of each problem, over all of its samples [P].
    """

    ids: tuple[str, ...]
    problem: Ints
    length: Ints
    rank: Ints
    correct: npt.NDArray[np.bool_]
    pass_rate: npt.NDArray[np.float64]

    @classmethod
    def of(cls, pool: Sequence[Recorded], num_permutations: int = 10, seed: int = 0) -> Trials:
        """Return the trials of a pool's problems, in the order given (see `pools.solvable`)."""
        if num_permutations < 1:
            raise UserError(f"the number of permutations is {num_permutations}; it must be 1 or more")
        rng = np.random.default_rng(seed)
        orders = [[rng.permutation(len(problem.labels)) for _ in range(num_permutations)] for problem in pool]
        return cls.in_order(pool, orders)

    @classmethod
    def in_order(cls, pool: Sequence[Recorded], orders: Sequence[Sequence[npt.NDArray[np.int64]]]) -> Trials:
        """Return the trials of given orders, some for each problem."""
        n = max(len(problem.labels) for problem in pool)
        num_trials = sum(map(len, orders))
        rank = np.full((num_trials, n), n, dtype=np.int64)
        correct = np.zeros((num_trials, n), dtype=bool)
        trial = 0
        for problem, permutations in zip(pool, orders, strict=True):
            keys = np.where(np.isnan(problem.rewards), np.inf, -problem.rewards)
            for order in permutations:
                best_first = np.argsort(keys[order], kind="stable")
                rank[trial, best_first] = np.arange(len(order))
                correct[trial, : len(order)] = problem.labels[order]
                trial += 1
        sizes = [len(permutations) for permutations in orders]
        return cls(
            ids=tuple(problem.id for problem in pool),
            problem=np.repeat(np.arange(len(pool)), sizes),
            length=np.repeat([len(problem.labels) for problem in pool], sizes),
            rank=rank,
            correct=correct,
            pass_rate=np.array([problem.pass_rate for problem in pool]),
        )

    @property
    def num_trials(self) -> int:
        return len(self.problem)

    @property
    def width(self) -> int:
        """n: the most draws of a trial."""
        return self.rank.shape[1]

    def by_rank(self) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return, best first, each sample's place in the draws (n: none) and whether it is correct: [T, n] both."""
        order = np.argsort(self.rank, axis=1, kind="stable")
        drawn = np.take_along_axis(self.rank, order, axis=1) < self.width
        return np.where(drawn, order, self.width), np.take_along_axis(self.correct, order, axis=1)

    def first_correct_rank(self) -> Ints:
        """Return K(M) for M = 1..n: the rank, from 1, of the best correct sample among the first M draws [T, n].

        n + 1 stands for "none yet", and for M beyond the trial's end. A fixed policy (M, K) succeeds iff K >= K(M).
        Between two draws that become the best correct one, K(M) only counts the better ranks that come in.
        """
        n = self.width
        best = np.minimum.accumulate(np.where(self.correct, self.rank, n), axis=1)
        better = np.cumsum(self.rank < best, axis=1)
        # Where a draw becomes the best correct one, K starts anew at 1 + the better ones before it.
        anew = np.diff(best, axis=1, prepend=n) < 0
        trial, draw = np.nonzero(anew)
        before = np.arange(n) < draw[:, None]
        start = 1 + ((self.rank[trial] < best[trial, draw][:, None]) & before).sum(axis=1)
        offset = np.zeros_like(self.rank)
        offset[trial, draw] = start - better[trial, draw]
        last = np.maximum.accumulate(np.where(anew, np.arange(n), 0), axis=1)
        ranks = better + np.take_along_axis(offset, last, axis=1)
        known = (best < n) & (np.arange(n) < self.length[:, None])
        return np.where(known, ranks, n + 1)
