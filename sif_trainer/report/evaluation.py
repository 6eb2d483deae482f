"""What an evaluation found, for people: `results.md`, `results.png` and the terminal. `sif eval` ends with it.

    show_evaluation(Path("runs/eval/mine"))

Numbers are percentages with their 95 % intervals, clustered by problem.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.runs.records import write_atomically

Values = Mapping[str, Any]


def show_evaluation(folder: Path) -> None:
    """Read `results.json`, write `results.md` and `results.png` beside it, and print the table."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    text = evaluation_page(results)
    write_atomically(folder / "results.md", text)
    _plot(results, folder / "results.png")
    print(text, end="")


def evaluation_page(results: Values) -> str:
    """Return the Markdown page of an evaluation: how it was drawn, and a row per benchmark."""
    decoding = results["decoding"]
    n = decoding["num_samples"]
    ks = list(next(iter(results["benchmarks"].values()))["scores"]["pass_at"])
    header = ["benchmark", "problems", f"avg@{n}", *(f"pass@{k}" for k in ks), f"maj@{n}", "boxed"]
    header += ["truncated", "unparsable", "tokens", "left out"]
    rows = [_row(name, result, ks) for name, result in results["benchmarks"].items()]
    if results["average"]:
        rows.append(["average", "", *_scores(results["average"], ks), "", "", "", ""])
    drawn = ", ".join(f"{name} {value}" for name, value in decoding.items() if value not in (None, [], {}))
    where = results["circumstances"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    return "\n".join(
        [
            f"# {results['model']}",
            "",
            f"Decoding: {drawn}, seed {results['seed']}.  ",
            f"With: {versions}; commit {where['git'] or 'unknown'}; {where['at']}.",
            "",
            *markdown_table(header, rows),
            "",
            "Percentages with 95 % intervals over problems. `boxed`: avg where only an answer in a box counts. "
            "`left out`: prompts that are too long.",
            "",
        ]
    )


def comparison_page(comparison: Values) -> str:
    """Return the Markdown page of two evaluations side by side."""
    header = ["benchmark", "problems", "A", "B", "B - A", "unmatched"]
    rows = [
        [
            name,
            str(pair["num_matched"]),
            f"{100 * pair['first']:.1f}",
            f"{100 * pair['second']:.1f}",
            percent(pair["difference"], sign="+"),
            str(pair["num_unmatched"]),
        ]
        for name, pair in comparison["benchmarks"].items()
    ]
    if comparison["overall"]:
        rows.append(["average", "", "", "", percent(comparison["overall"], sign="+"), ""])
    alone = ", ".join(comparison["unmatched_benchmarks"])
    return "\n".join(
        [
            f"A: {comparison['first']}  ",
            f"B: {comparison['second']}",
            *([f"\nNote: {comparison['note']}"] if comparison["note"] else []),
            "",
            *markdown_table(header, rows),
            "",
            "Percentage points with 95 % intervals of the paired difference, over the problems that both answered.",
            *([f"Not compared, because only one run has them: {alone}."] if alone else []),
            "",
        ]
    )


def percent(estimate: Values, sign: str = "") -> str:
    """Write an estimate as percentages: `41.2 [38.0, 44.5]`."""
    value, low, high = (f"{100 * estimate[part]:{sign}.1f}" for part in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table's lines, padded so that they are a table in a terminal as well."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in (header, rule, *rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def _row(name: str, result: Values, ks: Sequence[str]) -> list[str]:
    return [
        name,
        str(result["num_problems"]),
        *_scores(result["scores"], ks),
        f"{result['truncated_rate']:.1%}",
        f"{result['unparsable_rate']:.1%}",
        f"{result['mean_length']:.0f}",
        str(result["num_left_out"]),
    ]


def _scores(scores: Values, ks: Sequence[str]) -> list[str]:
    estimates = [scores["avg"], *(scores["pass_at"][k] for k in ks), scores["maj"]]
    return [*map(percent, estimates), f"{100 * scores['avg_boxed']['value']:.1f}"]


def _plot(results: Values, path: Path) -> None:
    """Draw avg@n, pass@k and maj@n with their intervals, a row per benchmark."""
    from matplotlib.figure import Figure

    n = results["decoding"]["num_samples"]
    parts = {name: result["scores"] for name, result in results["benchmarks"].items()}
    if results["average"]:
        parts["average"] = results["average"]
    ks = list(next(iter(parts.values()))["pass_at"])
    series = {f"avg@{n}": [scores["avg"] for scores in parts.values()]}
    series |= {f"pass@{k}": [scores["pass_at"][k] for scores in parts.values()] for k in ks}
    series |= {f"maj@{n}": [scores["maj"] for scores in parts.values()]}
    figure = Figure(figsize=(7, 1.2 + 0.5 * len(parts)), layout="constrained")
    axes = figure.subplots()
    for number, (label, estimates) in enumerate(series.items()):
        values = [100 * estimate["value"] for estimate in estimates]
        errors = [[100 * abs(e["value"] - e[side]) for e in estimates] for side in ("low", "high")]
        places = [place + 0.18 * (number - (len(series) - 1) / 2) for place in range(len(parts))]
        axes.errorbar(values, places, xerr=errors, fmt="o", capsize=2, label=label)
    axes.set_yticks(range(len(parts)), list(parts))
    axes.invert_yaxis()
    axes.set_xlim(-1, 101)
    axes.set_xlabel("percent, with 95 % intervals over problems")
    axes.set_title(results["model"], fontsize="medium")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=len(series), fontsize="small")
    figure.savefig(path, dpi=150)
