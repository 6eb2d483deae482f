"""Replay's summary as text, in the layout of the paper's tables.

print(format_replay(summary))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MAIN = "10"  # the cost of a verification of the paper's main table
_SHOWN_GROUPS = (1, 2, 5, 10)


def format_replay(summary: Mapping[str, Any]) -> str:
    """Return the main table (c_ver 10, or the first), the costs at every c_ver, and the premise in words."""
    by_cost = summary["c_ver"]
    main = _MAIN if _MAIN in by_cost else next(iter(by_cost))
    unsolvable = summary["num_problems"] - summary["num_solvable"]
    lines = [
        f"{summary['num_solvable']} problems with a correct sample x {summary['num_permutations']} orders = "
        f"{summary['num_trials']} trials; {unsolvable} problem(s) without one are left out, so that a search of the "
        "rest always succeeds",
        "",
        f"c_rew {summary['c_rew']:g}, c_ver {main}",
        f"{'policy':<30}{'N_rew':>8}{'N_ver':>8}{'cost':>10}{'95 % over problems':>22}{'success':>9}",
        *map(_row, _policies(by_cost[main])),
        "",
        f"{'mean cost by c_ver':<30}" + "".join(f"{c_ver:>10}" for c_ver in by_cost),
    ]
    names = [name for name, *_ in _policies(by_cost[main]) if not name.startswith("Uniform")]
    costs = [{name: cost["value"] for name, _, _, cost, _ in _policies(one)} for one in by_cost.values()]
    lines += [f"  {name:<28}" + "".join(f"{each[name]:>10.1f}" for each in costs) for name in names]
    lines += [
        f"  {'Uniform at ADAP, success':<28}"
        + "".join(f"{one['uniform']['success_rate']:>10.1%}" for one in by_cost.values())
    ]
    return "\n".join([*lines, "", _premise(summary["premise"])])


def _policies(one: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, Mapping[str, float], float]]:
    """Yield (name, draws, verifications, cost with interval, success) of one cost's policies."""
    adaptive = {
        "SampleAware": one["sample_aware"],
        "ADAP, batch": one["adap"]["batch"],
        "ADAP, sequential": one["adap"]["sequential"],
        "balanced (not the paper's)": one["balanced"],
    }
    for name, row in adaptive.items():
        yield name, row["num_draws"], row["num_verifications"], row["cost"], row["success_rate"]
    for name, key in (("Uniform at ADAP's cost", "uniform"), ("cheapest fixed, ADAP's success", "cheapest_fixed")):
        row = one[key]
        yield name, row["num_draws"], row["num_verifications"], {"value": row["cost"]}, row["success_rate"]
    for row in one["dap"]:
        if row["k"] in _SHOWN_GROUPS:
            yield f"DAP_{row['k']}", None, None, row["cost"], row["success_rate"]


def _row(policy: tuple[str, Any, Any, Mapping[str, float], float]) -> str:
    name, draws, verifications, cost, success = policy
    numbers = "".join(f"{'' if number is None else f'{number:.1f}':>8}" for number in (draws, verifications))
    interval = f"[{cost['low']:.1f}, {cost['high']:.1f}]" if "low" in cost else ""
    return f"{name:<30}{numbers}{cost['value']:>10.1f}{interval:>22}{success:>9.1%}"


def _premise(found: Mapping[str, Any]) -> str:
    if not found["num_mixed"]:
        return "every sample of these problems is correct: nothing tells whether scores rank them"
    auc, gap = found["auc_within"], found["isotonic_gap"]
    return (
        f"premise, over {found['num_mixed']} problems with correct and wrong samples: a correct one outscores a wrong "
        f"one of its problem with chance {auc['value']:.3f} [{auc['low']:.3f}, {auc['high']:.3f}] (pooled "
        f"{found['auc_pooled']:.3f}); pass rates are {gap['value']:.4f} away from rising with the score"
    )
