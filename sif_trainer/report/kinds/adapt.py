"""The page of an adaptation: its fixed checkpoints, on what it was adapted to and on what was held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sif_trainer.report.blocks import Plot, Section, Table, estimates, interval
from sif_trainer.report.kinds.train import progress
from sif_trainer.report.run import Run

_TRANSDUCTIVE = (
    "Transductive: trained on these very problems, without their answers. Checkpoints are of fixed steps; none was "
    "chosen by correctness."
)


def verdict(run: Run) -> str:
    """avg@n of the adapted benchmark before and after."""
    if run.summary is None:
        return "The checkpoints have not been evaluated yet."
    rows = [row for row in _rows(run) if row["transductive"]]
    first, last = rows[0], rows[-1]
    n = first["num_samples"]
    return (
        f"avg@{n} on {first['benchmark']} went from {interval(first['scores']['avg'])} % to "
        f"{interval(last['scores']['avg'])} % in {last['step']} steps, transductively; maj@{n} from "
        f"{interval(first['scores']['maj'])} % to {interval(last['scores']['maj'])} %."
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw one or more adaptations."""
    done = [run for run in runs if run.finished]
    checkpoints = Section("Checkpoints", [*_curves(done), *map(_table, done)], [_TRANSDUCTIVE])
    return [*([checkpoints] if done else []), *progress(runs)]


def _rows(run: Run) -> list[dict[str, Any]]:
    rows = (run.summary or {})["checkpoints"]
    return sorted(rows, key=lambda row: (not row["transductive"], row["benchmark"], row["step"]))


def _curves(runs: Sequence[Run]) -> list[Plot]:
    plots = []
    for key, name in {"avg": "avg@n", "maj": "maj@n"}.items():
        series = []
        for run in runs:
            rows = _rows(run)
            for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
                mine = [row for row in rows if row["benchmark"] == benchmark]
                found = {row["step"]: row["scores"][key] for row in mine}
                label = f"{benchmark}, {'transductive' if mine[0]['transductive'] else 'held out'}"
                series.append(estimates(label if len(runs) == 1 else f"{run.label}: {label}", found))
        plots.append(Plot(name, "step", name, series, "Bands are 95 % intervals over problems.", percent=True))
    return plots


def _table(run: Run) -> Table:
    rows = _rows(run)
    n, ks = rows[0]["num_samples"], list(rows[0]["scores"]["pass_at"])
    header = ["benchmark", "setting", "step", "problems", f"avg@{n}", *(f"pass@{k}" for k in ks), f"maj@{n}", "tokens"]
    cells = [
        [
            row["benchmark"],
            "transductive" if row["transductive"] else "held out",
            str(row["step"]),
            str(row["num_problems"]),
            *map(interval, [row["scores"]["avg"], *(row["scores"]["pass_at"][k] for k in ks), row["scores"]["maj"]]),
            f"{row['mean_length']:.0f}",
        ]
        for row in rows
    ]
    return Table(f"Checkpoints of {run.label}", header, cells, "Percent, with 95 % intervals over problems.")
