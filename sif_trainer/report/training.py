"""What a training run came to, for people: `training.md`, `training.png` and the terminal. `sif train` ends with it.

    show_training(Path("runs/train/smoke/quickstart"))

Accuracies are percentages; those of validation have 95 % intervals over its problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.report.evaluation import markdown_table
from sif_trainer.runs.records import Records, write_atomically

Values = Mapping[str, Any]


def show_training(folder: Path) -> None:
    """Read the run's records, write `training.md` and `training.png` beside them, and print the page."""
    metrics = list(Records(folder / "metrics.jsonl", writer=False))
    validation = list(Records(folder / "validation.jsonl", writer=False))
    text = training_page(metrics, validation)
    write_atomically(folder / "training.md", text)
    plot_training(metrics, validation, folder / "training.png")
    print(text)
    print(f"curves: {folder / 'training.png'}\nsamples: {folder / 'samples.jsonl'}\nmodel: {folder / 'last'}")
    print(f"page: sif report {folder}")


def training_page(metrics: Sequence[Values], validation: Sequence[Values]) -> str:
    """Return the Markdown page: held-out accuracy before, best and after, and the vote in the first and last steps."""
    lines = ["# Training run", ""]
    if validation:
        trained = validation[1:] or validation
        moments = {
            "before": validation[0],
            "best": max(trained, key=lambda record: record["accuracy"]),
            "after": validation[-1],
        }
        header = ["", "step", "accuracy", "greedy", "truncated", "tokens"]
        rows = [
            [
                name,
                str(record["step"]),
                _interval(record),
                _percent(record["greedy"]),
                _percent(record["truncated_rate"]),
                f"{record['length']:.0f}",
            ]
            for name, record in moments.items()
        ]
        lines += ["Held-out problems; no answer was read in training.", "", *markdown_table(header, rows), ""]
    if metrics:
        span = max(len(metrics) // 10, 1)
        names = [name for name in _SHOWN if name in metrics[0]]
        names += [name for name in metrics[0] if name.startswith("monitor/")]
        rows = [[name, _mean(metrics[:span], name), _mean(metrics[-span:], name)] for name in names]
        header = ["training responses", f"first {span} steps", f"last {span} steps"]
        lines += [*markdown_table(header, rows), ""]
    return "\n".join(lines)


def plot_training(metrics: Sequence[Values], validation: Sequence[Values], path: Path) -> None:
    """Draw held-out accuracy, training accuracy by vote, rates and certainty over the steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 6.5), layout="constrained")
    held_out, voted, rates, certainty = axes.flat
    if validation:
        steps = [record["step"] for record in validation]
        held_out.plot(steps, [record["accuracy"] for record in validation], marker="o", label="accuracy")
        low, high = ([record[f"accuracy_{end}"] for record in validation] for end in ("low", "high"))
        held_out.fill_between(steps, low, high, alpha=0.2, label="95 % interval")
        if any(record["greedy"] != record["accuracy"] for record in validation):
            held_out.plot(steps, [record["greedy"] for record in validation], linestyle=":", label="greedy")
    for name in metrics[0] if metrics else ():
        if name.startswith("monitor/"):
            _curve(voted, metrics, name, name.removeprefix("monitor/"))
    for name in ("sif/eligible_rate", "sif/keep_rate", "sif/truncated_rate"):
        _curve(rates, metrics, name, name.removeprefix("sif/"))
    _curve(certainty, metrics, "sif/certainty_mean", "mean certainty")
    _curve(certainty, metrics, "sif/certainty_variance", "variance within a response")
    _curve(certainty, metrics, "sif/entropy", "entropy")
    titles = ("held-out problems", "training responses (monitor)", "rates", "certainty, nats")
    for axis, title in zip(axes.flat, titles, strict=True):
        axis.set(title=title, xlabel="step")
        if axis.lines:
            axis.legend(fontsize="small")
        else:
            axis.text(0.5, 0.5, "not measured in this run", ha="center", va="center", transform=axis.transAxes)
    for axis in (held_out, voted, rates):
        axis.set_ylim(0, 1.03)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


_SHOWN = (
    "sif/eligible_rate",
    "sif/keep_rate",
    "sif/winners_per_group",
    "sif/window_margin",
    "sif/certainty_mean",
    "sif/certainty_variance",
    "sif/entropy",
    "sif/length",
    "sif/truncated_rate",
    "kl",
)


def _curve(axis: Any, metrics: Sequence[Values], name: str, label: str) -> None:
    points = [(record["step"], record[name]) for record in metrics if record.get(name) is not None]
    if points:
        axis.plot(*zip(*points, strict=True), label=label)


def _mean(metrics: Sequence[Values], name: str) -> str:
    values = [record[name] for record in metrics if record.get(name) is not None]
    return f"{sum(values) / len(values):.3f}" if values else "-"


def _interval(record: Values) -> str:
    low, high = _percent(record["accuracy_low"]), _percent(record["accuracy_high"])
    return f"{_percent(record['accuracy'])} ({low} to {high})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
