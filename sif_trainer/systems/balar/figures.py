"""Figures of BALAR's studies, as PNG: accuracy over questions, rounds of asking and expanding, synthetic worlds.

sif balar run RECIPE            # accuracy.png (Figures 8 and 9), rounds.png (Figure 10)
sif balar synthetic             # synthetic.png
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def draw_synthetic(summary: Mapping[str, Any], path: Path) -> None:
    """Draw accuracy with its 95 % interval after each question, and the calibration, one column per size."""
    figure = Figure(figsize=(5 * len(summary), 7.5), layout="constrained")
    panels = figure.subplots(2, len(summary), squeeze=False)
    for (size, found), above, below in zip(summary.items(), *panels, strict=True):
        for name, curve in found["accuracy"].items():
            places = range(len(curve))
            above.plot(places, [point["value"] for point in curve], label=name)
            above.fill_between(
                places, [point["low"] for point in curve], [point["high"] for point in curve], alpha=0.15
            )
        above.set(title=f"{size}: {found['num_cases']} cases", xlabel="questions", ylabel="accuracy", ylim=(0, 1))
        below.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        for name, calibration in found["calibration"].items():
            probabilities, frequencies, _ = zip(*calibration["bins"], strict=True)
            below.plot(probabilities, frequencies, marker="o", markersize=3, label=name)
        below.set(xlabel="predicted probability of an answer", ylabel="how often it came", xlim=(0, 1), ylim=(0, 1))
    panels[0][0].legend(fontsize="x-small")
    panels[1][0].legend(fontsize="x-small")
    figure.savefig(path, dpi=120)


def draw(summary: Mapping[str, Any], folder: Path) -> None:
    """Draw a study's accuracy.png and rounds.png."""
    methods = summary["methods"]
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    values = [row["accuracy"]["value"] for row in methods.values()]
    left.bar(range(len(methods)), values, yerr=[row["standard_error"] for row in methods.values()], capsize=4)
    left.set_xticks(range(len(methods)), list(methods), rotation=40, ha="right", fontsize=8)
    left.set(ylabel="accuracy, with its standard error", ylim=(0, 1), title=f"{summary['num_cases']} cases")
    for name, row in methods.items():
        rounds = list(map(int, row["accuracy_after"]))
        right.plot(rounds, [point["value"] for point in row["accuracy_after"].values()], marker="o", label=name)
    right.set(xlabel="questions after which the dialogue is cut")
    right.legend(fontsize="x-small")
    figure.savefig(folder / "accuracy.png", dpi=120)

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, row) in enumerate(methods.items()):
        for what, style in (("asking_by_round", "-"), ("expanding_by_round", ":")):
            if any(row[what]):
                axes.plot(
                    range(1, len(row[what]) + 1), row[what], style, color=f"C{number}",
                    label=f"{name}: {what.partition('_')[0]}",
                )  # fmt: skip
    axes.set(xlabel="round", ylabel="share of cases", ylim=(-0.02, 1.02))
    if axes.lines:
        axes.legend(fontsize="x-small")
    figure.savefig(folder / "rounds.png", dpi=120)
