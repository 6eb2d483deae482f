"""The page of a BALAR run: accuracy by method and by question, and how the rounds were spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sif_trainer.report.blocks import Plot, Section, Series, estimates, interval
from sif_trainer.report.completions import visible
from sif_trainer.report.run import Run, Values
from sif_trainer.report.summaries import tables_of


def verdict(run: Run) -> str:
    """BALAR's accuracy and the best of the others; of a chat, its answer."""
    summary = run.summary
    if summary is None:
        return f"{len(run.records('cases'))} cases have been solved."
    if run.stage == "chat":
        return f"After {summary['num_asks']} questions the answer is: {visible(summary['answer'])}"
    if run.stage == "synthetic":
        return " ".join(_in_a_sentence(size, found) for size, found in summary.items())
    if run.stage != "run":
        return f"The stage {run.stage} has finished."
    found = {name: method["accuracy"] for name, method in summary["methods"].items()}
    first = "balar" if "balar" in found else next(iter(found))
    others = {name: estimate for name, estimate in found.items() if name != first}
    best = max(others, key=lambda name: others[name]["value"], default=None)
    against = f"; the best other method, {best}, {interval(others[best])} %" if best else ""
    return f"{first} answers {interval(found[first])} % of {summary['num_cases']} cases rightly{against}."


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw each run on its own, as its stage wants it."""
    plots = {"run": _study, "synthetic": _synthetic}
    return [
        Section(
            f"Results of {run.label}",
            [*plots.get(run.stage, _nothing)(run.summary), *tables_of(run.summary)],
            _failures(run.summary),
        )
        for run in runs
        if run.summary is not None
    ]


def _failures(summary: Values) -> list[str]:
    return [
        f"{name}: {method['num_failed']} of {summary['num_cases']} cases had no usable reply of the model; they count "
        "as wrong."
        for name, method in summary.get("methods", {}).items()
        if method["num_failed"]
    ]


def _nothing(summary: Values) -> list[Plot]:
    return []


def _study(summary: Values) -> list[Plot]:
    methods: Mapping[str, Values] = summary["methods"]
    note = "With 95 % intervals over cases."
    accuracy = estimates("accuracy", {name: method["accuracy"] for name, method in methods.items()})
    after = [estimates(name, _by_number(method["accuracy_after"])) for name, method in methods.items()]
    asking = [_rounds(name, method["asking_by_round"]) for name, method in methods.items()]
    return [
        Plot("Accuracy", "", "cases", [accuracy], note, "points", percent=True),
        Plot("Accuracy after so many questions", "questions", "cases", after, note, percent=True),
        Plot("Cases that ask", "round", "cases", asking, percent=True),
    ]


def _in_a_sentence(size: str, found: Values) -> str:
    ends = {name: curve[-1] for name, curve in found["accuracy"].items()}
    num_questions = len(found["accuracy"]["balar"]) - 1
    return (
        f"In the {size} world balar has found {interval(ends['balar'])} % of {found['num_cases']} cases after "
        f"{num_questions} questions, random questions {interval(ends['random'])} %."
    )


def _synthetic(summary: Values) -> list[Plot]:
    """Accuracy over questions for each size of world: the methods with exact tables, and balar with noisy ones."""
    plots = []
    for size, found in summary.items():
        curves = [_curve(name, curve) for name, curve in found["accuracy"].items()]
        noisy = [curve for curve in curves if "noise" in curve.label]
        exact = [curve for curve in curves if curve not in noisy]
        plots.append(Plot(f"Accuracy, {size}", "questions", "cases", exact, percent=True))
        if noisy:
            balar = [curve for curve in exact if curve.label == "balar"]
            plots.append(
                Plot(f"Accuracy with noisy tables, {size}", "questions", "cases", balar + noisy, percent=True)
            )
    return plots


def _by_number(found: Mapping[str, Values]) -> dict[Any, Values]:
    return {int(number): found[number] for number in sorted(found, key=int)}


def _rounds(label: str, shares: Sequence[float]) -> Series:
    return Series(label, list(range(1, len(shares) + 1)), list(shares))


def _curve(label: str, found: Sequence[Values]) -> Series:
    return estimates(label, dict(zip(range(len(found)), found, strict=True)))
