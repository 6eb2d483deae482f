"""The page of a JointCore run: what each method kept, how many questions it took, and whether the decision stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sif_trainer.report.blocks import Plot, Section, Series, percent
from sif_trainer.report.run import Run, Values
from sif_trainer.report.summaries import tables_of

_BOUNDS = ("full_memory", "exact_oracle")  # no methods: all records, and the best that there is
_QUESTIONS = ("queries", "evaluations")


def verdict(run: Run) -> str:
    """What the stage is about, in its own numbers."""
    summary = run.summary
    if summary is None:
        return f"{len(run.records('records')) or len(run.records('answers'))} records have been made."
    if run.stage == "select":
        certified = "certified 1-minimal" if summary["certified"] else "not certified"
        return (
            f"{len(summary['kept'])} of {summary['num_records']} records are kept after {summary['num_queries']} "
            f"questions; the decision is {summary['decision']}, and the kept set is {certified}."
        )
    methods = _methods(summary)
    if not methods:
        return f"The stage {run.stage} has finished."
    names = [
        name for name in ("success_rate", "sufficiency_rate", "savings_rate") if name in next(iter(methods.values()))
    ]
    searching = {method: values for method, values in methods.items() if method not in _BOUNDS} or methods
    best = max(searching, key=lambda method: (searching[method][names[0]], -_questions(searching[method])))
    rates = ", ".join(f"{name.removesuffix('_rate')} {percent(searching[best][name])} %" for name in names)
    control = (
        f" The judge decided rightly on all records in {percent(summary['control_rate'])} % of the tasks."
        if "control_rate" in summary
        else ""
    )
    return (
        f"Of the methods that drop records, {best} comes first by {names[0].removesuffix('_rate')}: {rates}, "
        f"{_questions(searching[best]):.2f} questions per task.{control}"
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw each run on its own, as its stage wants it."""
    return [
        Section(f"Results of {run.label}", [*_plots(_methods(run.summary)), *tables_of(run.summary)])
        for run in runs
        if run.summary is not None
    ]


def _methods(summary: Values) -> Mapping[str, Values]:
    """Numbers by method: of the model stage, or over all tasks of the exact one."""
    found: Mapping[str, Values] = summary.get("methods") or summary.get("overall") or {}
    return found


def _questions(values: Values) -> float:
    return next((float(values[name]) for name in _QUESTIONS if name in values), 0.0)


def _plots(methods: Mapping[str, Values]) -> list[Plot]:
    if not methods:
        return []
    rates = [name for name in ("success_rate", "sufficiency_rate", "savings_rate", "minimum_rate")
             if name in next(iter(methods.values()))]  # fmt: skip
    series = [
        Series(name.removesuffix("_rate"), list(methods), [each[name] for each in methods.values()]) for name in rates
    ]
    count = Series("questions", list(methods), [_questions(each) for each in methods.values()])
    note = "Sufficient: the needed records are kept. Minimum: at the least cost. Savings: of the cost of all records."
    return [
        Plot("What the kept records do", "", "tasks", series, note, "points", percent=True),
        Plot("Questions", "", "per task", [count], "Fewer is better.", "points"),
    ]
