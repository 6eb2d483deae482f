"""The paper's figures 2 to 4 from run folders: queries against minimum recovery, families, robustness.

sif jointcore compare runs/a runs/b --run runs/compare        # figures 2 and 3, as PNG in the folder
sif jointcore robust jointcore/smollm2-135m                   # figure 4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sif_trainer.systems.jointcore.compare import PAIR, Runs, family_differences
from sif_trainer.systems.jointcore.hashing import hash64
from sif_trainer.systems.jointcore.robustness import METHODS, READINGS, VARIANTS
from sif_trainer.systems.jointcore.statistics import SEED, bootstrap


def queries_against_recovery(runs: Runs, path: Path) -> None:
    """Draw one point per policy and method: mean queries with their 95 % interval, against minimum recovery."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for method, marker in zip(PAIR, "os", strict=True):
        for number, (name, records) in enumerate(runs.items()):
            queries = [float(record["methods"][method]["queries"]) for record in records]
            recovery = sum(record["methods"][method]["minimum"] for record in records) / len(records)
            mean, low, high = bootstrap(queries, SEED + hash64(name, method) % 100_000)
            axes.errorbar(
                mean,
                recovery,
                xerr=[[mean - low], [high - mean]],
                fmt=marker,
                color=f"C{number}",
                label=f"{name}: {method}",
            )
    axes.set_xlabel("questions per task (95 % interval over tasks)")
    axes.set_ylabel("minimum-cost recovery")
    axes.set_ylim(-0.02, 1.02)
    axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=150)


def families(runs: Runs, path: Path) -> None:
    """Draw JointCore minus singleton per family, in queries and minimum recovery, with 95 % intervals over tasks."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, metric in zip(figure.subplots(1, 2, sharey=True), ("queries", "minimum"), strict=True):
        for number, (name, records) in enumerate(runs.items()):
            found = family_differences(records, metric)
            means = [interval.mean for interval in found.values()]
            spans = [[i.mean - i.low for i in found.values()], [i.high - i.mean for i in found.values()]]
            places = [place + 0.8 * (number + 0.5) / len(runs) - 0.4 for place in range(len(found))]
            axes.errorbar(means, places, xerr=spans, fmt="o", markersize=4, label=name)
            axes.set_yticks(range(len(found)), list(found))
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_xlabel(f"{metric}: JointCore minus singleton")
    axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=150)


def robustness(summaries: Mapping[str, Mapping[str, Any]], path: Path, readings: Sequence[str] = READINGS) -> None:
    """Draw success by policy and method (rows) and variant (columns), one panel per reading."""
    rows = [(name, method) for name in summaries for method in METHODS]
    figure = Figure(figsize=(3.4 * len(readings) + 2.5, 1.6 + 0.45 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(readings), sharey=True, squeeze=False)[0]
    for axes, reading in zip(panels, readings, strict=True):
        values = [[summaries[name][reading][method][variant] for variant in VARIANTS] for name, method in rows]
        image = axes.imshow(values, vmin=0, vmax=1, aspect="auto", cmap="viridis")
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                axes.text(
                    x,
                    y,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if value < 0.6 else "black",
                )
        axes.set_xticks(range(len(VARIANTS)), list(VARIANTS), rotation=60, fontsize=8)
        axes.set_yticks(range(len(rows)), [f"{name}: {method}" for name, method in rows], fontsize=7)
        axes.set_title(reading, fontsize=9)
    figure.colorbar(image, ax=panels[-1])
    figure.savefig(path, dpi=150)
