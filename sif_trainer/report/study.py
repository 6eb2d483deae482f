"""A comparison study for people: `table.md`, `table.csv`, `curves.csv`, `study.png`. `sif study` ends with it.

    show_study(folder, study_results(folder))

The columns are those of the paper's Tables 2, 3 and 11: final accuracy, peak (step), chosen steps, drop.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.report.evaluation import markdown_table
from sif_trainer.runs.records import write_atomically

Values = Mapping[str, Any]
_NOTE = (
    "Held-out accuracy in percent: mean over seeds with Student's 95 % interval. `peak`: highest accuracy of a run "
    "after a step, and its mean step; `drop`: peak - final. Differences are taken seed by seed and are not adjusted "
    "for the number of arms."
)


def show_study(folder: Path, results: Values) -> None:
    """Write the tables, the curves and the figure into the study's folder, and print the tables."""
    text = study_page(results)
    write_atomically(folder / "table.md", text)
    write_atomically(folder / "table.csv", table_csv(results))
    write_atomically(folder / "curves.csv", curves_csv(results))
    plot_study(results, folder / "study.png")
    print(text)
    print(f"figure: {folder / 'study.png'}\nnumbers: {folder / 'table.csv'}, {folder / 'curves.csv'}")


def study_page(results: Values) -> str:
    """Return the Markdown page: the tables, the paired differences to the reference, and what did not end well."""
    quantities, reference = results["quantities"], results["reference"]
    lines = ["# Comparison study", ""]
    for title, arms in tables(results).items():
        lines += [f"## {title}", "", *_table(quantities, arms), ""]
    names = _columns(quantities, list(quantities), ("peak", "final", "drop"))
    rows = [
        [arm, *(_signed(found.get(name, {}).get("difference")) for name in names)]
        for arm, found in quantities.items()
        if arm != reference and found["seeds"]
    ]
    if rows:
        header = ["arm", *(f"{name}, minus {reference}" for name in names)]
        lines += [f"## Paired differences to {reference}", "", *markdown_table(header, rows), ""]
    lines += [_NOTE, ""]
    for run in results["runs"]:
        if not run["finished"]:
            measured = f"measured up to step {run['curve'][-1]['step']}" if run["curve"] else "not measured yet"
            reason = f"failed: {run['failed']}" if run["failed"] else "has not ended"
            lines += [f"- Not in the tables: {run['arm']}, seed {run['seed']}, {measured}; it {reason}"]
    return "\n".join(lines) + "\n"


def tables(results: Values) -> dict[str, list[str]]:
    """Return the titles and arms of the study's tables; one of all arms unless the recipe names some."""
    wanted = results["tables"] or {"All arms": results["arms"]}
    return {title: [arm for arm in arms if arm in results["arms"]] for title, arms in wanted.items()}


def _table(quantities: Values, arms: Sequence[str]) -> list[str]:
    names = [name for name in _columns(quantities, arms) if name != "peak step"]
    rows = []
    for arm in arms:
        found = quantities[arm]
        cells = [_percent(found.get(name)) for name in names]
        if "peak" in found:
            cells[names.index("peak")] += f" ({found['peak step']['mean']:.0f})"
        rows.append([arm, str(len(found["seeds"])), *cells])
    return markdown_table(["arm", "seeds", *("peak (step)" if name == "peak" else name for name in names)], rows)


def _columns(quantities: Values, arms: Sequence[str], wanted: Sequence[str] = ()) -> list[str]:
    """Return the quantities that any of the arms has, in order."""
    names = dict.fromkeys(name for arm in arms for name in quantities[arm] if name != "seeds")
    return [name for name in names if not wanted or name in wanted]


def table_csv(results: Values) -> str:
    """Return a line per arm and quantity: mean, interval, and paired difference; accuracies from 0 to 1."""
    parts = ("mean", "low", "high", "num")
    lines = [["arm", "quantity", *parts, *(f"difference_{part}" for part in parts)]]
    for arm, found in results["quantities"].items():
        for name, estimate in found.items():
            if name != "seeds":
                difference = estimate["difference"] or {}
                lines.append([arm, name, *map(estimate.get, parts), *map(difference.get, parts)])
    return csv_text(lines)


def curves_csv(results: Values) -> str:
    """Return a line per run and measured step, with everything that validation recorded."""
    names = list(dict.fromkeys(name for run in results["runs"] for record in run["curve"] for name in record))
    lines = [["arm", "seed", *names]]
    lines += [
        [run["arm"], run["seed"], *(record.get(name) for name in names)]
        for run in results["runs"]
        for record in run["curve"]
    ]
    return csv_text(lines)


def plot_study(results: Values, path: Path) -> None:
    """Draw mean accuracy over the steps, a panel per table, a line per arm; every run, finished or not, thinly."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = tables(results)
    num_columns = min(len(panels), 2)
    num_rows = math.ceil(len(panels) / num_columns)
    figure = Figure(figsize=(6.5 * num_columns, 4.2 * num_rows), layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for axis in grid.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (title, arms) in zip(grid.flat, panels.items(), strict=False):
        for number, arm in enumerate(arms):
            runs = [run for run in results["runs"] if run["arm"] == arm and run["curve"]]
            main = arm == results["reference"]
            color = "black" if main else colormaps["tab10"](number % 10)
            for run in runs:
                axis.plot(*_points(run["curve"]), color=color, alpha=0.2, linewidth=0.7)
            if finished := [run["curve"] for run in runs if run["finished"]]:
                axis.plot(*_mean_curve(finished), color=color, label=arm, linewidth=2.5 if main else 1.5)
        axis.set(title=title, xlabel="step", ylabel="held-out accuracy, %", ylim=(0, 100))
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def _points(curve: Sequence[Values]) -> tuple[list[int], list[float]]:
    return [record["step"] for record in curve], [100 * record["accuracy"] for record in curve]


def _mean_curve(curves: Sequence[Sequence[Values]]) -> tuple[list[int], list[float]]:
    """Return the mean at the steps that every one of the curves has."""
    values = [dict(zip(*_points(curve), strict=True)) for curve in curves]
    steps = sorted(set.intersection(*map(set, values)))
    return steps, [sum(value[step] for value in values) / len(values) for step in steps]


def _percent(estimate: Values | None, sign: str = "") -> str:
    if not estimate:
        return "-"
    mean, low, high = (f"{100 * estimate[part]:{sign}.1f}" for part in ("mean", "low", "high"))
    return mean if estimate["num"] == 1 else f"{mean} [{low}, {high}]"


def _signed(estimate: Values | None) -> str:
    return _percent(estimate, sign="+")


def csv_text(lines: Sequence[Sequence[Any]]) -> str:
    """Return lines of cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
