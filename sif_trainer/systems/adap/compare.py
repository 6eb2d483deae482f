"""The whole comparison on a pool: ADAP in both accountings, our rule, all baselines, at several verification costs.

    sif adap replay pool.npz
    sif adap replay pool.npz c_ver=[10] num_permutations=100 --json

Means are unweighted over trials (a problem in one order each), intervals over problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import strict_json, write_atomically
from sif_trainer.systems.adap import figures
from sif_trainer.systems.adap.baselines import FixedPolicies, dap, sample_aware
from sif_trainer.systems.adap.intervals import Resampled
from sif_trainer.systems.adap.pools import Recorded, solvable
from sif_trainer.systems.adap.premise import premise
from sif_trainer.systems.adap.replay import ACCOUNTINGS, Spent, replay
from sif_trainer.systems.adap.rules import RULES, rounds
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.theory import Discrete, isotonic
from sif_trainer.systems.adap.trials import Trials

NUM_BUDGETS = 100
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReplayConfig:
    """What is replayed. Defaults are the published protocol."""

    c_rew: float = field(default=1.0, metadata={"help": "Cost of a draw with its score. Paper: 1."})
    c_ver: tuple[float, ...] = field(
        default=(1.0, 10.0, 20.0, 30.0), metadata={"help": "Costs of a verification. Paper: 10, ablation 1 to 30."}
    )
    num_permutations: int = field(default=10, metadata={"help": "Orders of each problem's samples. Paper: 10."})
    seed: int = field(default=0, metadata={"help": "Of the orders, and of the intervals. Paper: 0."})
    num_groups: int = field(default=10, metadata={"help": "DAP with 1 to so many groups. Paper: 10."})

    def __post_init__(self) -> None:
        for name in ("num_permutations", "num_groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if not self.c_ver:
            raise ValueError("c_ver is empty; name at least one cost of a verification")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")
        _ = self.costs  # refused before a run folder remembers them

    @property
    def costs(self) -> dict[str, Costs]:
        """The pairs of costs, by the verification's."""
        return {f"{c_ver:g}": Costs.of(self.c_rew, c_ver) for c_ver in self.c_ver}


def compare(pool: Sequence[Recorded], config: ReplayConfig) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the summary, and one record for each cost and trial.

    Raises:
        UserError: costs that are not positive; a pool without a correct sample.
    """
    pairs = config.costs
    kept = solvable(pool)
    trials = Trials.of(kept, config.num_permutations, config.seed)
    table = FixedPolicies.of(trials)
    resampled = Resampled.of(len(kept), config.seed)
    known = [isotonic(problem.rewards, problem.labels) for problem in kept]
    summary: dict[str, Any] = {
        "num_problems": len(pool),
        "num_solvable": len(kept),
        "num_trials": trials.num_trials,
        "c_rew": config.c_rew,
        "num_permutations": config.num_permutations,
        "seed": config.seed,
        "problems_by_pass_rate": [trials.ids[i] for i in np.argsort(trials.pass_rate, kind="stable")],
        "c_ver": {},
        "premise": premise(kept, config.seed),
    }
    records: list[dict[str, Any]] = []
    for name, costs in pairs.items():
        spent = {rule: replay(trials, rounds(rule, costs)) for rule in RULES}
        summary["c_ver"][name] = _at_one_cost(trials, table, known, costs, spent, resampled, config.num_groups)
        records += _trial_records(trials, table, costs, spent, name)
    return summary, records


def _at_one_cost(
    trials: Trials,
    table: FixedPolicies,
    known: Sequence[Discrete],
    costs: Costs,
    spent: dict[str, Spent],
    resampled: Resampled,
    num_groups: int,
) -> dict[str, Any]:
    adap = spent["adap"]
    cost = {accounting: adap.cost(accounting, costs) for accounting in ACCOUNTINGS}
    paid = {accounting: _by_problem(trials, values) for accounting, values in cost.items()}
    balanced = _by_problem(trials, spent["balanced"].cost("sequential", costs))
    aware = sample_aware(table.ranks, costs)
    num_successes = int(adap.success.sum())
    splits = dap(trials, table.ranks, costs, num_groups)
    by_pass_rate = np.argsort(trials.pass_rate, kind="stable")
    prices = [float(costs.price(m, m)) for m in (1, trials.width)]
    budgets = np.logspace(np.log10(prices[0]), np.log10(prices[1]), NUM_BUDGETS)
    curve = table.curve(costs, budgets)
    return {
        "adap": _spent(trials, adap, costs, resampled),
        # A rule that verifies one at a time has one accounting.
        "balanced": {
            **_spent(trials, spent["balanced"], costs, resampled)["sequential"],
            "over_adap": {
                accounting: asdict(resampled.ratio(balanced, paid[accounting])) for accounting in ACCOUNTINGS
            },
        },
        "sample_aware": {
            "cost": asdict(resampled.mean(_by_problem(trials, aware.cost))),
            "num_draws": float(aware.num_draws.mean()),
            "num_verifications": float(aware.num_verifications.mean()),
            "success_rate": 1.0,
        },
        "known_optimum": asdict(resampled.mean(np.array([each.optimum(costs).cost for each in known]))),
        "uniform": table.best_within(costs, float(cost["batch"].mean()))._asdict(),
        "uniform_sequential": table.best_within(costs, float(cost["sequential"].mean()))._asdict(),
        "cheapest_fixed": table.cheapest(costs, num_successes)._asdict(),
        "dap": [
            {
                "k": split.k,
                "cost": asdict(resampled.mean(split.problem_costs)),
                "success_rate": split.success_rate,
                "over_adap": {
                    accounting: asdict(resampled.ratio(split.problem_costs, paid[accounting][by_pass_rate]))
                    for accounting in ACCOUNTINGS
                },
                "groups": [list(group) for group in split.groups],
            }
            for split in splits
        ],
        "curve": {
            "budget": budgets.tolist(),
            "success_rate": [policy.success_rate for policy in curve],
            "num_draws": [policy.num_draws for policy in curve],
            "num_verifications": [policy.num_verifications for policy in curve],
        },
    }


def _spent(trials: Trials, spent: Spent, costs: Costs, resampled: Resampled) -> dict[str, dict[str, Any]]:
    return {
        accounting: {
            "cost": asdict(resampled.mean(_by_problem(trials, spent.cost(accounting, costs)))),
            "num_draws": float(spent.num_draws.mean()),
            "num_verifications": float(spent.num_verifications(accounting).mean()),
            "success_rate": float(spent.success.mean()),
        }
        for accounting in ACCOUNTINGS
    }


def _by_problem(trials: Trials, values: npt.NDArray[Any]) -> Floats:
    """Return the mean over each problem's trials."""
    sums = np.bincount(trials.problem, weights=values)
    means: Floats = sums / np.bincount(trials.problem)
    return means


def _trial_records(
    trials: Trials, table: FixedPolicies, costs: Costs, spent: dict[str, Spent], c_ver: str
) -> list[dict[str, Any]]:
    aware = sample_aware(table.ranks, costs)
    adap, balanced = spent["adap"], spent["balanced"]
    columns = {
        "num_draws": adap.num_draws,
        "num_batch": adap.num_batch,
        "num_sequential": adap.num_sequential,
        "success": adap.success,
        "balanced_num_draws": balanced.num_draws,
        "balanced_num_verifications": balanced.num_sequential,
        "sample_aware_num_draws": aware.num_draws,
        "sample_aware_num_verifications": aware.num_verifications,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    permutation = np.arange(trials.num_trials) - np.searchsorted(trials.problem, trials.problem)
    return [
        {"c_ver": c_ver, "id": trials.ids[problem], "permutation": number, **dict(zip(columns, row, strict=True))}
        for problem, number, row in zip(trials.problem, permutation.tolist(), rows, strict=True)
    ]


def run_replay(run: RunFolder, pool: Sequence[Recorded], config: ReplayConfig) -> dict[str, Any]:
    """Compare on a pool, write `trials.jsonl` and the figures, and return the summary."""
    if run.finished:
        return run.summary
    summary, records = compare(pool, config)
    write_atomically(run.path / "trials.jsonl", "".join(f"{strict_json(record)}\n" for record in records))
    figures.curves(summary, run.path / "curves.png")
    figures.costs(summary, run.path / "costs.png")
    figures.premise(summary, run.path / "premise.png")
    run.finish(summary)
    return run.summary
