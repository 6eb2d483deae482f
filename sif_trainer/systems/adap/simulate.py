"""ADAP's competitive ratio on random instances: its expected cost over the best possible, J*.

    sif adap simulate num_instances=10000

An instance is a discrete distribution of scores with non-decreasing pass rates, and two costs. Which candidates a
search verifies depends on scores alone, and passes are independent given the scores. So only the numbers of draws of
each score are random here; over the verdicts the expectation is exact: a round is paid with the chance that none
before passed. The theorem allows 400 J* for every such instance; our count of its shells' prices gives 121.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.adap.rules import rounds
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.theory import Discrete

THEOREM = 400.0
_SURVIVAL = 1e-9  # a search that gets there with a smaller chance is not followed further


@dataclass(frozen=True)
class SimulateConfig:
    """Which instances are drawn."""

    num_instances: int = field(default=10_000, metadata={"help": "Random instances."})
    num_runs: int = field(default=20, metadata={"help": "Searches of each, averaged."})
    seed: int = field(default=0, metadata={"help": "Of instances and draws."})

    def __post_init__(self) -> None:
        for name in ("num_instances", "num_runs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")


class Ratios(NamedTuple):
    """Expected cost over J* of every instance, by accounting."""

    batch: npt.NDArray[np.float64]
    sequential: npt.NDArray[np.float64]


def random_instance(rng: np.random.Generator) -> tuple[Discrete, Costs]:
    """Draw one instance: 1 to 12 scores, pass rates over six orders of magnitude, costs over three either way."""
    size = int(rng.integers(1, 13))
    p = rng.dirichlet(np.full(size, 10 ** rng.uniform(-1.5, 1.0)))
    top = 10 ** rng.uniform(-4, 0)
    kind = rng.integers(3)
    if kind == 0:
        h = np.sort(top * rng.random(size))
    elif kind == 1:  # rates that differ by orders of magnitude
        h = np.sort(top * 10 ** rng.uniform(-4, 0, size))
    else:  # a step: useless below, equal above
        h = np.where(np.arange(size) >= rng.integers(size), top, 0.0)
    h[-1] = top
    p = np.maximum(p, 1e-4)  # a score that is never drawn would leave J* to chance
    ratio = 2.0 ** int(rng.integers(-10, 11))
    return Discrete.of(p, h), Costs.of(1, ratio)


def expected_cost(instance: Discrete, costs: Costs, num_runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean cost of a search by batch and by sequential accounting, over random draws."""
    p, h = instance.p, instance.h[::-1]
    waiting = np.zeros((num_runs, len(p)), dtype=np.int64)  # not verified yet, best score first
    survival = np.ones(num_runs)
    batch, sequential = np.zeros(num_runs), np.zeros(num_runs)
    c_rew, c_ver = float(costs.rew), float(costs.ver)
    for num_draws, num_verifications in rounds("adap", costs):
        waiting += rng.multinomial(num_draws, p, size=num_runs)[:, ::-1]
        better = np.cumsum(waiting, axis=1)
        taken = np.clip(num_verifications - (better - waiting), 0, waiting)
        waiting -= taken
        miss = (1 - h) ** taken
        reached = np.cumprod(np.hstack([np.ones((num_runs, 1)), miss[:, :-1]]), axis=1)
        each = np.divide(1 - miss, h, out=taken.astype(float), where=h > 0)  # expected until the first pass
        batch += survival * (c_rew * num_draws + c_ver * taken.sum(axis=1))
        sequential += survival * (c_rew * num_draws + c_ver * (reached * each).sum(axis=1))
        survival *= miss.prod(axis=1)
        if survival.max() < _SURVIVAL:
            break
    return float(batch.mean()), float(sequential.mean())


def simulate(config: SimulateConfig) -> Ratios:
    """Return the ratios of random instances."""
    rng = np.random.default_rng(config.seed)
    ratios = np.empty((config.num_instances, 2))
    for number in range(config.num_instances):
        instance, costs = random_instance(rng)
        best = instance.optimum(costs).cost
        ratios[number] = expected_cost(instance, costs, config.num_runs, rng)
        ratios[number] /= best
    return Ratios(ratios[:, 0], ratios[:, 1])


def summarise(ratios: Ratios) -> dict[str, Any]:
    """Return worst, mean, median and 99th percentile of the ratio, by accounting."""
    return {
        "num_instances": len(ratios.batch),
        "theorem": THEOREM,
        **{
            name: {
                "worst": float(values.max()),
                "mean": float(values.mean()),
                "median": float(np.median(values)),
                "p99": float(np.quantile(values, 0.99)),
            }
            for name, values in ratios._asdict().items()
        },
    }


def run_simulation(run: RunFolder, config: SimulateConfig) -> dict[str, Any]:
    """Simulate and return the summary."""
    if not run.finished:
        run.finish(summarise(simulate(config)))
    return run.summary


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return a summary as a table of text."""
    lines = [f"cost over J*, {summary['num_instances']} instances; the theorem allows {summary['theorem']:g}"]
    lines += [f"{'accounting':<12}{'worst':>9}{'99 %':>9}{'mean':>9}{'median':>9}"]
    for name in Ratios._fields:
        row = summary[name]
        lines.append(f"{name:<12}{row['worst']:>9.2f}{row['p99']:>9.2f}{row['mean']:>9.2f}{row['median']:>9.2f}")
    return "\n".join(lines)
