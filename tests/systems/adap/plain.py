"""The replay as the specification reads, trial by trial and table by table: the oracle, and the benchmark's yardstick.

Every prefix is sorted anew, every (M, K) of every trial has a cell, every group of problems is averaged anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Plain:
    """One pool at one pair of costs."""

    c_rew: float
    c_ver: float
    trials: list  # (problem, rewards, labels) in drawn order
    table: np.ndarray  # [T, n + 1, n + 1]: whether (M, K) succeeds

    @classmethod
    def of(cls, pool, c_rew, c_ver, num_permutations=10, seed=0):
        rng = np.random.default_rng(seed)
        trials = []
        for number, problem in enumerate(pool):
            for _ in range(num_permutations):
                order = rng.permutation(len(problem.labels))
                trials.append((number, problem.rewards[order].tolist(), problem.labels[order].tolist()))
        n = max(len(labels) for _, _, labels in trials)
        table = np.zeros((len(trials), n + 1, n + 1), dtype=bool)
        for trial, (_, rewards, labels) in enumerate(trials):
            for m, rank in enumerate(ranks_by_prefix(rewards, labels), 1):
                if rank is not None:
                    table[trial, m, rank:] = True
        return cls(c_rew, c_ver, trials, table)

    def adap(self, shells, sequential):
        """Return (success, draws, verifications) of every trial; `shells` is a list of (m, k)."""
        return [play(rewards, labels, shells, sequential) for _, rewards, labels in self.trials]

    def sample_aware(self):
        """Return (cost, M, K) of every trial."""
        found = []
        for rows in self.table:
            ms, ks = np.nonzero(rows)
            first = {}
            for m, k in zip(ms.tolist(), ks.tolist(), strict=True):
                first.setdefault(m, k)
            found.append(min((self.c_rew * m + self.c_ver * k, m, k) for m, k in first.items()))
        return found

    def policies(self):
        """Yield (M, K, cost, successes), M first."""
        solved = self.table.sum(axis=0)
        n = len(solved) - 1
        for m in range(1, n + 1):
            for k in range(1, m + 1):
                yield m, k, self.c_rew * m + self.c_ver * k, int(solved[m, k])

    def uniform(self, budget):
        best = (0, 0, 0.0, -1)
        for policy in self.policies():
            if policy[2] <= budget and policy[3] > best[3]:
                best = policy
        return best

    def cheapest(self, num_successes):
        return min(
            (policy for policy in self.policies() if policy[3] >= num_successes),
            key=lambda policy: (policy[2], -policy[3], policy[0]),
        )

    def dap(self, pool, most):
        """Return (successes, cost per problem) of DAP_1 to DAP_most."""
        order = sorted(range(len(pool)), key=lambda i: (pool[i].labels.mean(), pool[i].id))
        rows = {i: [t for t, (number, _, _) in enumerate(self.trials) if number == i] for i in order}
        per_problem = np.array([self.table[rows[i]].sum(axis=0) for i in order])
        sizes = [len(pool[i].labels) for i in order]
        numbers = np.arange(self.table.shape[1])
        price = self.c_rew * numbers[:, None] + self.c_ver * numbers
        valid = (numbers[:, None] >= numbers) & (numbers >= 1) & (numbers[:, None] >= 1)
        group = {}
        for i in range(len(order)):
            for j in range(i, len(order)):
                allowed = valid & (numbers[:, None] <= min(sizes[i : j + 1]))
                solved = np.where(allowed, per_problem[i : j + 1].sum(axis=0), -1)
                cheapest = np.where(solved == solved.max(), price, np.inf).min()
                group[i, j] = int(solved.max()), float(cheapest) * (j - i + 1)
        best = {(0, 0): (0, 0.0)}
        for k in range(1, most + 1):
            for end in range(k, len(order) + 1):
                options = [
                    (
                        best[k - 1, start][0] + group[start, end - 1][0],
                        best[k - 1, start][1] + group[start, end - 1][1],
                    )
                    for start in range(k - 1, end)
                    if (k - 1, start) in best
                ]
                if options:
                    best[k, end] = max(options, key=lambda option: (option[0], -option[1]))
        return [(best[k, len(order)][0], best[k, len(order)][1] / len(order)) for k in range(1, most + 1)]


def key(rewards, index):
    """Sort by reward, highest first, missing last, ties by draw."""
    missing = rewards[index] != rewards[index]
    return (missing, 0.0 if missing else -rewards[index], index)


def ranks_by_prefix(rewards, labels):
    """Return K(M) for M = 1 to n, None where no draw is correct."""
    ranks = []
    for m in range(1, len(labels) + 1):
        order = sorted(range(m), key=lambda index: key(rewards, index))
        ranks.append(next((place for place, index in enumerate(order, 1) if labels[index]), None))
    return ranks


def play(rewards, labels, shells, sequential):
    """Play one trial; return (success, draws, verifications)."""
    drawn = verified = 0
    waiting = []
    for m, k in shells:
        new = range(drawn, min(drawn + m, len(labels)))
        drawn += len(new)
        waiting += new
        waiting.sort(key=lambda index: key(rewards, index))
        chosen, waiting = waiting[:k], waiting[k:]
        passed = next((place for place, index in enumerate(chosen, 1) if labels[index]), None)
        verified += passed if passed and sequential else len(chosen)
        if passed:
            return True, drawn, verified
        if drawn == len(labels) and not waiting:
            break
    return False, drawn, verified
