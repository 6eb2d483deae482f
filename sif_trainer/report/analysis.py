"""Training runs side by side, for people: `analysis.md`, `analysis.csv`, `analysis.png`. `sif analyze` ends with it.

    show_analysis(Path("runs/analysis"), [analyze(run) for run in runs])

Figures 7 and 8 and Tables 4 and 10 of the paper, from the runs' own records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.report.evaluation import markdown_table
from sif_trainer.report.study import csv_text
from sif_trainer.runs.records import write_atomically

Values = Mapping[str, Any]
_PANELS = {  # curve: (title, what the paper shows it in)
    "certainty variance": "variance of certainty within a response (Figure 8)",
    "top word share": "share of the most frequent word (Figure 7)",
    "lexical concentration": "lexical concentration of the samples (Figure 7)",
    "accuracy": "held-out accuracy",
}


def show_analysis(folder: Path, runs: Sequence[Values]) -> None:
    """Write the page, the curves and the figure into the folder, and print the page."""
    text = analysis_page(runs)
    write_atomically(folder / "analysis.md", text)
    write_atomically(folder / "analysis.csv", analysis_csv(runs))
    plot_analysis(runs, folder / "analysis.png")
    print(text)
    print(f"figure: {folder / 'analysis.png'}\nnumbers: {folder / 'analysis.csv'}")


def analysis_page(runs: Sequence[Values]) -> str:
    """Return the Markdown page; a run without the records for a table is named below it."""
    lines = ["# Analysis of training runs", ""]
    header = ["run", "at", "step", "certainty", "variance", "top word share", "concentration", "top word"]
    numbers = ("certainty_mean", "certainty_variance", "top_word_share", "concentration")
    rows = [
        [
            run["label"],
            row["moment"],
            str(row["step"]),
            *(_number(row[n]) for n in numbers),
            _shortened(row["top_word"]),
        ]
        for run in runs
        for row in run["moments"]
    ]
    lines += ["## Certainty and words (Figures 7 and 8)", "", *markdown_table(header, rows), ""]
    lines += _largest_gaps(runs)
    rows = [
        [run["label"], pair["monitor"], name, "{}-{}".format(*part["steps"]), *_kept(part)]
        for run in runs
        for pair in run["kept"]
        for name, part in pair["moments"].items()
    ]
    if rows:
        header = ["run", "monitor", "at", "steps", "all", "kept", "kept minus all"]
        lines += ["## Kept against all (Table 4), percent", "", *markdown_table(header, rows), ""]
    rows = [
        [run["label"], str(row["step"]), _number(row["certainty_mean"]), f"{100 * row['accuracy']:.1f}"]
        for run in runs
        for row in run["proxy"]
    ]
    if rows:
        header = ["run", "step", "mean certainty", "held-out accuracy, %"]
        lines += ["## Proxy against accuracy (Table 10)", "", *markdown_table(header, rows), ""]
    lacks = [f"- {what}" for run in runs for what in run["lacks"]]
    return "\n".join([*lines, *lacks, *([""] if lacks else [])])


def _largest_gaps(runs: Sequence[Values]) -> list[str]:
    """Name the step at which the variance of certainty is furthest from the first run's (Figure 8)."""
    first, *others = ({"label": run["label"], **dict(run["curves"]["certainty variance"])} for run in runs)
    lines = []
    for other in others:
        gaps = {step: other[step] - first[step] for step in first.keys() & other.keys() if step != "label"}
        if gaps:
            step = max(gaps, key=lambda step: (abs(gaps[step]), -step))
            lines.append(
                f"- Largest gap in variance, {other['label']} minus {first['label']}: "
                f"{gaps[step]:+.3f} at step {step}."
            )
    return [*lines, ""] if lines else []


def analysis_csv(runs: Sequence[Values]) -> str:
    """Return a line per run, curve and step."""
    points = [
        [run["label"], name, step, value]
        for run in runs
        for name, curve in run["curves"].items()
        for step, value in curve
    ]
    return csv_text([["run", "curve", "step", "value"], *points])


def plot_analysis(runs: Sequence[Values], path: Path) -> None:
    """Draw every curve over the steps, and accuracy over certainty, a line per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7), layout="constrained")
    panels = figure.subplots(2, 3)
    *over_steps, kept, proxy = panels.flat
    for run in runs:
        curves = run["curves"]
        for axis, name in zip(over_steps, _PANELS, strict=True):
            _line(axis, curves[name], run["label"])
        for name, points in curves.items():
            if name.endswith("kept minus all"):
                _line(kept, points, f"{run['label']}, {name.split(',')[0]}")
        _line(proxy, [(row["certainty_mean"], row["accuracy"]) for row in run["proxy"]], run["label"], marker="o")
    for axis, title in zip(over_steps, _PANELS.values(), strict=True):
        axis.set(title=title, xlabel="step")
    kept.set(title="accuracy, kept minus all (Table 4)", xlabel="step")
    kept.axhline(0, color="black", linewidth=0.7)
    proxy.set(title="proxy against accuracy (Table 10)", xlabel="mean certainty, nats", ylabel="held-out accuracy")
    for axis in panels.flat:
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
        else:
            axis.text(0.5, 0.5, "not recorded", ha="center", va="center", transform=axis.transAxes)
    figure.savefig(path, dpi=120)


def _line(axis: Any, points: Sequence[tuple[float, float]], label: str, **style: Any) -> None:
    if points:
        axis.plot(*zip(*points, strict=True), label=label, **style)


def _kept(part: Values) -> list[str]:
    difference = part["difference"]
    mean, low, high = (f"{100 * difference[name]:+.1f}" for name in ("mean", "low", "high"))
    interval = f" [{low}, {high}]" if difference["num"] > 1 else ""
    return [f"{100 * part['all']:.1f}", f"{100 * part['kept']:.1f}", f"{mean}{interval}"]


def _shortened(word: str | None) -> str:
    return "-" if word is None else word if len(word) <= 20 else f"{word[:19]}…"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
