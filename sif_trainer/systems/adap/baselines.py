"""What ADAP is compared with on a pool: policies that know more, or that do not adapt. Spec section 5.

    table = FixedPolicies.of(trials)
    sample_aware(table.ranks, costs)              # the best (M, K) of every single trial
    table.best_within(costs, budget)              # Uniform: one (M, K) for all, at a budget
    table.cheapest(costs, num_successes)          # one (M, K) for all, at a success
    dap(trials, table.ranks, costs, most=10)      # one (M, K) for each of k groups of problems

A fixed policy draws M, verifies the best K and succeeds in a trial iff K >= K(M). Uniform, the cheapest policy and DAP
are chosen with the labels of the very trials that they are scored on: they are oracles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.trials import Ints, Trials

Floats = npt.NDArray[np.float64]


class Fixed(NamedTuple):
    """One (M, K), what it always costs, and the share of trials that it solves."""

    num_draws: int
    num_verifications: int
    cost: float
    success_rate: float


class Aware(NamedTuple):
    """The cheapest (M, K) of each trial [T]."""

    cost: Floats
    num_draws: Ints
    num_verifications: Ints


def sample_aware(ranks: Ints, costs: Costs) -> Aware:
    """Return each trial's least c_rew M + c_ver K(M), ties to the smaller M: below every search of that trial."""
    n = ranks.shape[1]
    cost = np.where(ranks <= n, float(costs.rew) * np.arange(1, n + 1) + float(costs.ver) * ranks, np.inf)
    best = cost.argmin(axis=1)
    rows = np.arange(len(ranks))
    return Aware(cost[rows, best], best + 1, ranks[rows, best])


@dataclass(frozen=True)
class FixedPolicies:
    """All (M, K), 1 <= K <= M <= n, at once: `solved[M - 1, K - 1]` counts the trials that a policy solves."""

    ranks: Ints
    solved: Ints

    @classmethod
    def of(cls, trials: Trials) -> FixedPolicies:
        """Return the table of a set of trials."""
        ranks, n = trials.first_correct_rank(), trials.width
        cells = ranks - 1 + np.arange(n) * (n + 1)
        counts = np.bincount(cells.ravel(), minlength=n * (n + 1)).reshape(n, n + 1)
        return cls(ranks, np.cumsum(counts[:, :n], axis=1))

    def costs(self, costs: Costs) -> Floats:
        """Return the price of every (M, K); infinite for K > M."""
        numbers = np.arange(1, self.solved.shape[0] + 1)
        price = float(costs.rew) * numbers[:, None] + float(costs.ver) * numbers
        return np.where(numbers[:, None] >= numbers, price, np.inf)

    def best_within(self, costs: Costs, budget: float) -> Fixed:
        """Return the policy with the highest success that costs at most `budget`; ties to the smallest M, then K.

        With less than the price of one draw and one verification it is (1, 1) all the same.
        """
        price = self.costs(costs)
        best = np.where(price <= budget, self.solved, -1).argmax()
        return self._policy(int(best), price)

    def cheapest(self, costs: Costs, num_successes: int) -> Fixed:
        """Return the cheapest policy that solves at least so many trials; ties to more successes, then smallest M."""
        price = self.costs(costs)
        enough = np.where(self.solved >= num_successes, price, np.inf)
        ties = enough <= enough.min() + 1e-9
        return self._policy(int(np.where(ties, self.solved, -1).argmax()), price)

    def curve(self, costs: Costs, budgets: Floats) -> list[Fixed]:
        """Return, for each budget, the policy with the best success at that cost or less, the cheapest of its kind.

        Below the price of one draw and one verification it is (0, 0), which solves nothing.
        """
        price = self.costs(costs).ravel()
        order = np.argsort(price, kind="stable")
        solved = self.solved.ravel()[order]
        best = np.maximum.accumulate(solved)
        first = np.maximum.accumulate(np.where(np.diff(best, prepend=-1) > 0, np.arange(len(best)), 0))
        affordable = np.searchsorted(price[order], budgets, side="right") - 1
        grid = price.reshape(self.solved.shape)
        return [
            self._policy(int(order[first[place]]), grid) if place >= 0 else Fixed(0, 0, 0.0, 0.0)
            for place in affordable
        ]

    def _policy(self, cell: int, price: Floats) -> Fixed:
        row, column = divmod(cell, self.solved.shape[1])
        return Fixed(row + 1, column + 1, float(price[row, column]), float(self.solved[row, column]) / len(self.ranks))


class Group(NamedTuple):
    """One group of DAP: the first and last problem in order of pass rate, and its policy."""

    first: int
    last: int
    num_draws: int
    num_verifications: int


class Dap(NamedTuple):
    """DAP_k: the groups, the mean cost and success over problems, and each problem's cost, by rising pass rate."""

    k: int
    cost: float
    success_rate: float
    groups: list[Group]
    problem_costs: Floats


def dap(trials: Trials, ranks: Ints, costs: Costs, most: int = 10) -> list[Dap]:
    """Return DAP_1 to DAP_most: the best split of the problems, by rising pass rate, into k contiguous groups.

    Equal pass rates go by id. A group's policy solves as many of its trials as any could, at the least cost; the split
    has the most successes, then the least cost.
    """
    order = np.argsort(trials.pass_rate, kind="stable")
    num_problems = len(order)
    solved, draws, verifications = _segments(trials, ranks, costs, order)
    size = np.arange(num_problems)[None, :] - np.arange(num_problems)[:, None] + 1
    price = float(costs.rew) * draws + float(costs.ver) * verifications
    weight = np.where(size > 0, size * price, np.inf)
    # best[j]: the most successes, and the least cost, of the problems before j in k groups
    success, cost = np.full(num_problems + 1, -1), np.full(num_problems + 1, np.inf)
    success[0], cost[0] = 0, 0.0
    found, splits = [], []
    for k in range(1, min(most, num_problems) + 1):
        reached = np.where((success[:-1, None] >= 0) & (size > 0), success[:-1, None] + solved, -1)
        highest = reached.max(axis=0)
        total = np.where((reached == highest) & (reached >= 0), cost[:-1, None] + weight, np.inf)
        start = (total <= total.min(axis=0) + 1e-9).argmax(axis=0)
        splits.append(start)
        success, cost = np.append(-1, highest), np.append(np.inf, total.min(axis=0))
        groups, end = [], num_problems - 1
        for starts in reversed(splits):
            first = int(starts[end])
            groups.append(Group(first, end, int(draws[first, end]), int(verifications[first, end])))
            end = first - 1
        groups.reverse()
        each = np.concatenate([np.full(g.last - g.first + 1, price[g.first, g.last]) for g in groups])
        found.append(Dap(k, float(cost[-1]) / num_problems, float(success[-1]) / trials.num_trials, groups, each))
    return found


def _segments(trials: Trials, ranks: Ints, costs: Costs, order: Ints) -> tuple[Ints, Ints, Ints]:
    """Return, for the problems order[i] to order[j], how many trials the best policy solves, and its M and K [P, P].

    A policy that solves all that can be solved within L draws (L: the fewest samples of a problem in the group) has K
    at least the largest K(M) of those trials: a running maximum over the group's problems.
    """
    num_problems, n = len(order), ranks.shape[1]
    rows = [np.flatnonzero(trials.problem == problem) for problem in order]
    lengths = np.array([trials.length[row[0]] for row in rows])
    needed = {int(limit): np.full((num_problems, n), n + 1) for limit in np.unique(lengths)}
    solvable = {limit: np.zeros(num_problems, dtype=np.int64) for limit in needed}
    for limit, needs in needed.items():
        for place, row in enumerate(rows):
            if lengths[place] >= limit:
                possible = ranks[row, :limit][ranks[row, limit - 1] <= n]
                solvable[limit][place] = len(possible)
                needs[place, :limit] = possible.max(axis=0, initial=1)
    solved, draws, verifications = (np.zeros((num_problems, num_problems), dtype=np.int64) for _ in range(3))
    numbers = np.arange(1, n + 1)
    for first in range(num_problems):
        limits = np.minimum.accumulate(lengths[first:])
        for limit in np.unique(limits):
            upto = first + np.flatnonzero(limits == limit)
            needs = np.maximum.accumulate(needed[int(limit)][first : upto[-1] + 1], axis=0)[upto - first]
            price = np.where(needs <= n, float(costs.rew) * numbers + float(costs.ver) * needs, np.inf)
            best = price.argmin(axis=1)
            draws[first, upto] = best + 1
            verifications[first, upto] = needs[np.arange(len(upto)), best]
            solved[first, upto] = np.cumsum(solvable[int(limit)][first : upto[-1] + 1])[upto - first]
    return solved, draws, verifications
