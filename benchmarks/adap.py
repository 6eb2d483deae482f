"""ADAP's replay: the whole comparison, beside the plain method of the definition, on 83 problems x 512 samples.

    python benchmarks/adap.py                   # a made-up pool; some minutes, nearly all of them the plain method's
    python benchmarks/adap.py pool.npz          # your own

Ours: trials, all baselines, both accountings and intervals, at the four published costs of a verification. The
yardstick (`tests/systems/adap/plain.py`) does ADAP, SampleAware, Uniform, the cheapest policy and DAP at one cost:
every prefix sorted, a table with a cell for every (M, K) of every trial (218 MB), every group averaged anew. Both must
say the same.
CPU seconds of this process.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np

from sif_trainer.systems.adap.compare import ReplayConfig, compare
from sif_trainer.systems.adap.pools import Recorded, read_pool, solvable
from sif_trainer.systems.adap.rules import rounds

YARDSTICK = Path(__file__).parents[1] / "tests" / "systems" / "adap" / "plain.py"
MAIN = "10"


def load_yardstick():
    spec = importlib.util.spec_from_file_location("plain", YARDSTICK)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def made_up(num_problems: int = 83, num_samples: int = 512) -> list[Recorded]:
    """Pass rates over three orders of magnitude; correct samples score higher by one standard deviation."""
    rng = np.random.default_rng(0)
    pool = []
    for number in range(num_problems):
        labels = rng.random(num_samples) < 10 ** rng.uniform(-2.7, -0.3)
        labels[rng.integers(num_samples)] = True
        pool.append(Recorded(f"p{number:03}", rng.normal(size=num_samples) + labels, labels))
    return pool


def main(pool: list[Recorded]) -> None:
    config = ReplayConfig()
    start = time.process_time()
    summary, records = compare(pool, config)
    ours = time.process_time() - start
    print(f"ours, {len(config.c_ver)} costs of a verification: {ours:.2f} s")

    plain = load_yardstick()
    kept, costs = solvable(pool), config.costs[MAIN]
    start = time.process_time()
    oracle = plain.Plain.of(kept, 1.0, float(MAIN), config.num_permutations, config.seed)
    table = time.process_time() - start
    shells = list(islice(rounds("adap", costs), 40))
    adap = oracle.adap(shells, sequential=False)
    sequential = oracle.adap(shells, sequential=True)
    aware = oracle.sample_aware()
    mean_cost = sum(draws + float(MAIN) * verified for _, draws, verified in adap) / len(adap)
    uniform = oracle.uniform(mean_cost)
    cheapest = oracle.cheapest(sum(success for success, _, _ in adap))
    splits = oracle.dap(kept, min(config.num_groups, len(kept)))
    theirs = time.process_time() - start
    print(f"plain, 1 cost: {theirs:.1f} s, of which {table:.1f} s are for the table that all costs share")

    found = summary["c_ver"][MAIN]
    rows = [row for row in records if row["c_ver"] == MAIN]
    assert [(row["num_draws"], row["num_batch"]) for row in rows] == [row[1:] for row in adap]
    assert [row["num_sequential"] for row in rows] == [row[2] for row in sequential]
    assert [(row["sample_aware_num_draws"], row["sample_aware_num_verifications"]) for row in rows] == [
        row[1:] for row in aware
    ]
    assert (found["uniform"]["num_draws"], found["uniform"]["num_verifications"]) == uniform[:2]
    assert found["cheapest_fixed"]["cost"] == cheapest[2]
    assert np.allclose([split["cost"]["value"] for split in found["dap"]], [cost for _, cost in splits])
    all_costs = table + len(config.c_ver) * (theirs - table)
    print(f"the same numbers; plain for all costs {all_costs:.1f} s: {all_costs / ours:.0f} times ours")


if __name__ == "__main__":
    main(read_pool(sys.argv[1]) if sys.argv[1:] else made_up())
