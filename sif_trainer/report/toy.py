"""The theory's toy for people: `toy.md`, `toy.csv`, `toy.png`. `sif analyze --toy` ends with it.

show_toy(Path("runs/analysis"), toy_results())
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sif_trainer.report.evaluation import markdown_table
from sif_trainer.report.study import csv_text
from sif_trainer.runs.records import write_atomically

Values = Mapping[str, Any]


def show_toy(folder: Path, results: Values) -> None:
    """Write the table, the curves and the figure into the folder, and print the table."""
    text = toy_page(results)
    write_atomically(folder / "toy.md", text)
    columns = results["curves"]
    write_atomically(folder / "toy.csv", csv_text([list(columns), *zip(*columns.values(), strict=True)]))
    plot_toy(results, folder / "toy.png")
    print(text)
    print(f"figure: {folder / 'toy.png'}\nnumbers: {folder / 'toy.csv'}")


def toy_page(results: Values) -> str:
    """Return the Markdown page: the landmarks of the path, and when the flow passes them."""
    landmarks = results["landmarks"]
    header = ["at", *(key for key in landmarks[0] if key != "at")]
    rows = [[row["at"], *(_number(row[key]) for key in header[1:])] for row in landmarks]
    return "\n".join(
        [
            "# The constructive example",
            "",
            "The reward is mean certainty, and only C is correct. `certainty`: of the first token, `mu`: mean of the "
            "second, `R`: expected reward, half their sum; in nats. `h`: expected step of a group of G; `time`: when "
            "the flow theta' = h, which starts at 0, passes.",
            "",
            *markdown_table(header, rows),
            "",
        ]
    )


def plot_toy(results: Values, path: Path) -> None:
    """Draw probabilities, reward and drift over theta, and accuracy over the flow's time."""
    from matplotlib.figure import Figure

    curves = results["curves"]
    figure = Figure(figsize=(13, 4), layout="constrained")
    chances, reward, time = figure.subplots(1, 3)
    thetas = curves["theta"]
    for token in "BCW":
        chances.plot(thetas, curves[f"p({token})"], label=f"p({token})")
    chances.plot(thetas, curves["greedy accuracy"], color="black", linestyle=":", label="greedy accuracy")
    chances.set(title="the first token", xlabel="theta", ylim=(-0.03, 1.03))
    reward.plot(thetas, curves["R"], color="black", label="R, expected reward")
    for size in results["num_generations"]:
        reward.plot(thetas, curves[f"h, G={size}"], linestyle="--", label=f"h, G = {size}")
        time.plot(curves[f"time, G={size}"], curves["p(C)"], label=f"p(C), G = {size}")
    reward.set(title="reward and drift", xlabel="theta")
    time.set(title="accuracy while the reward is followed", xlabel="time", ylim=(0, 1), xlim=(0, 60))
    for axis in (chances, reward, time):
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"
