"""What an adaptation came to, for people: `adaptation.md`, `adaptation.png` and the terminal. `sif adapt` ends with
it.

    show_adaptation(Path("runs/adapt/smoke/adapt"))

Percentages with 95 % intervals over problems. What was trained on is marked transductive wherever it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.report.evaluation import markdown_table, percent
from sif_trainer.runs.records import write_atomically

Rows = Sequence[Mapping[str, Any]]


def show_adaptation(folder: Path) -> None:
    """Read the run's summary, write `adaptation.md` and `adaptation.png` beside it, and print the page."""
    rows = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["checkpoints"]
    text = adaptation_page(rows)
    write_atomically(folder / "adaptation.md", text)
    plot_adaptation(rows, folder / "adaptation.png")
    print(text)
    print(f"curves: {folder / 'adaptation.png'}\npage: sif report {folder}")


def adaptation_page(rows: Rows) -> str:
    """Return the Markdown page: a row per checkpoint and benchmark."""
    n = rows[0]["num_samples"]
    ks = list(rows[0]["scores"]["pass_at"])
    header = ["benchmark", "setting", "step", "problems", f"avg@{n}", *(f"pass@{k}" for k in ks), f"maj@{n}", "tokens"]
    cells = [
        [
            row["benchmark"],
            _setting(row),
            str(row["step"]),
            str(row["num_problems"]),
            percent(row["scores"]["avg"]),
            *(percent(row["scores"]["pass_at"][k]) for k in ks),
            percent(row["scores"]["maj"]),
            f"{row['mean_length']:.0f}",
        ]
        for row in sorted(rows, key=lambda row: (not row["transductive"], row["benchmark"], row["step"]))
    ]
    note = (
        "Transductive: trained on these very problems, without their answers. Checkpoints are of fixed steps; none "
        "was chosen by correctness. Percentages with 95 % intervals over problems."
    )
    return "\n".join(["# Test-time adaptation", "", *markdown_table(header, cells), "", note, ""])


def plot_adaptation(rows: Rows, path: Path) -> None:
    """Draw avg@n over the steps, a line per benchmark."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        mine = sorted((row for row in rows if row["benchmark"] == benchmark), key=lambda row: row["step"])
        steps = [row["step"] for row in mine]
        averages = [row["scores"]["avg"] for row in mine]
        label = f"{benchmark} ({_setting(mine[0])})"
        axis.plot(steps, [estimate["value"] for estimate in averages], marker="o", label=label)
        axis.fill_between(steps, [e["low"] for e in averages], [e["high"] for e in averages], alpha=0.2)
    axis.set(xlabel="step", ylabel=f"avg@{rows[0]['num_samples']}", title="adaptation", ylim=(0, 1))
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _setting(row: Mapping[str, Any]) -> str:
    return "transductive" if row["transductive"] else "held out"
