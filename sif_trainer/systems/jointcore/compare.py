"""Cost-ordered JointCore against the singleton search over finished model runs: paired tests, and what figures show.

    sif jointcore compare runs/jointcore-model-a runs/jointcore-model-b

The family of tests is every metric of every policy given, so the adjusted p-values depend on how many are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import Records
from sif_trainer.systems.jointcore.hashing import hash64
from sif_trainer.systems.jointcore.model import MEANS, mean, summarise
from sif_trainer.systems.jointcore.statistics import SEED, Interval, Test, bootstrap, paired_tests
from sif_trainer.systems.jointcore.tasks import BLOCKS, DOMAINS, FAMILIES, SUPPORT_SIZES

PAIR = ("jointcore_cost_ordered", "conditional_singleton_cost")
FAMILY_OF = [family for family in FAMILIES for _ in range(len(DOMAINS) * len(SUPPORT_SIZES) * len(BLOCKS))]
Runs = Mapping[str, Sequence[Mapping[str, Any]]]


def read_runs(folders: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return {folder name: records in index order} of model runs; UserError for a folder that is none."""
    if not folders:
        raise UserError("name at least one finished run of sif jointcore model")
    runs: dict[str, list[dict[str, Any]]] = {}
    for folder in folders:
        path = Path(folder)
        records = sorted(Records(path / "records.jsonl", writer=False), key=lambda record: record["index"])
        if not (path / "summary.json").exists() or not records or "control_correct" not in records[0]:
            raise UserError(f"{folder} holds no finished run of sif jointcore model")
        if missing := [method for method in PAIR if method not in records[0]["methods"]]:
            raise UserError(f"{folder} was run without {missing[0]}; compare needs {' and '.join(PAIR)}")
        if path.name in runs:
            raise UserError(f"two runs are called {path.name}; their names tell them apart, so rename one")
        runs[path.name] = records
    return runs


def compare(runs: Runs) -> list[Test]:
    """Return JointCore minus singleton on behaviour, savings and queries of every policy, adjusted together."""

    def values(method: str) -> dict[str, dict[str, list[float]]]:
        return {
            name: {
                metric: [float(record["methods"][method][metric]) for record in records]
                for metric in ("behaviour", "savings", "queries")
            }
            for name, records in runs.items()
        }

    return paired_tests(values(PAIR[0]), values(PAIR[1]))


def family_differences(records: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Interval]:
    """Return JointCore minus singleton per family with tasks, and its interval over them."""
    found = {}
    for family in FAMILIES:
        rows = [record["methods"] for record in _of_family(records, family)]
        if rows:
            differences = [float(row[PAIR[0]][metric]) - float(row[PAIR[1]][metric]) for row in rows]
            found[family] = bootstrap(differences, SEED + hash64(family, metric) % 100_000)
    return found


def pool(runs: Runs) -> dict[str, dict[str, float | None]]:
    """Return {method: means} over all: within a family each policy weighs the same, and then each family does."""
    by_family = [
        [summarise(rows)["methods"] for records in runs.values() if (rows := _of_family(records, family))]
        for family in FAMILIES
    ]
    cells = [policies for policies in by_family if policies]
    return {
        method: {key: mean(mean(rows[method][key] for rows in policies) for policies in cells) for key in MEANS}
        for method in cells[0][0]
    }


def _of_family(records: Sequence[Mapping[str, Any]], family: str) -> list[Mapping[str, Any]]:
    return [record for record in records if FAMILY_OF[record["index"]] == family]


def format_tests(tests: Sequence[Test]) -> str:
    """Return the tests as a table of text: mean difference, 95 % interval, adjusted p."""
    lines = [f"{'policy':<28}{'metric':<12}{'difference':>12}{'95 % interval':>22}{'p':>10}{'adjusted':>10}"]
    for test in tests:
        mean, low, high = test.difference
        interval = f"[{low:.3f}, {high:.3f}]"
        lines.append(
            f"{test.policy:<28}{test.metric:<12}{mean:>12.3f}{interval:>22}{test.p_value:>10.2g}{test.adjusted_p_value:>10.2g}"
        )
    return "\n".join(lines)
