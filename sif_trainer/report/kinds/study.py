"""The page of a comparison study: the paper's tables over seeds, and every arm's curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from sif_trainer.report.blocks import Plot, Section, Series, Table, curve, estimates, interval
from sif_trainer.report.run import Run, Values
from sif_trainer.report.study import tables

_NOTE = (
    "Held-out accuracy in percent: mean over seeds with Student's 95 % interval, where there are several. Peak: "
    "highest accuracy of a run after a step, and its mean step; drop: peak minus final."
)


def verdict(run: Run) -> str:
    """The reference arm's end beside the best of the others, and how many runs there are."""
    found = run.findings or {}
    finals = {arm: each["final"] for arm, each in found["quantities"].items() if "final" in each}
    done = sum(one["finished"] for one in found["runs"])
    seeds = len({one["seed"] for one in found["runs"]})
    start = (
        f"{done} of {len(found['runs'])} started runs have ended ({len(found['arms'])} arms, {seeds} seeds so far). "
    )
    reference = found["reference"]
    if reference not in finals or len(finals) < 2:
        return start + "There is nothing to compare yet."
    others = {arm: estimate for arm, estimate in finals.items() if arm != reference}
    best = max(others, key=lambda arm: others[arm]["mean"])
    paired = others[best]["difference"]
    against = f" (paired difference {interval(paired, '+')} points)" if paired else ""
    chance = " With one seed, a difference may be chance." if seeds == 1 else ""
    return (
        f"{start}{reference} ends at {interval(finals[reference])} % held-out accuracy; the best other arm, {best}, "
        f"at {interval(others[best])} %{against}.{chance}"
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw each study on its own: its arms are its comparison."""
    return [section for run in runs for section in _sections(run, run.findings or {})]


def _sections(run: Run, found: Values) -> list[Section]:
    sections = [Section(title, _parts(found, arms)) for title, arms in tables(found).items()]
    gone = [
        f"Not in the tables: {one['arm']}, seed {one['seed']}; it "
        + (f"failed: {one['failed']}" if one["failed"] else "has not ended.")
        for one in found["runs"]
        if not one["finished"]
    ]
    each = f"Each run has a page of its own: sif report {run.path}/ARM/seedK."
    return [*sections, Section("The runs", texts=[_NOTE, *gone, each])]


def _parts(found: Values, arms: Sequence[str]) -> list[Plot | Table]:
    quantities = {arm: found["quantities"][arm] for arm in arms if found["quantities"][arm]["seeds"]}
    shown = [name for name in ("final", "peak") if any(name in each for each in quantities.values())]
    plots = [
        Plot("Held-out accuracy", "step", "accuracy", [s for arm in arms for s in _arm(found, arm)], percent=True)
    ]
    if shown:
        series = [
            estimates(name, {arm: each[name] for arm, each in quantities.items() if name in each}) for name in shown
        ]
        plots.append(Plot("Peak and final accuracy", "", "accuracy", series, form="points", percent=True))
    return [*plots, _table(found, arms), *_differences(found, arms)]


def _arm(found: Values, arm: str) -> list[Series]:
    """An arm's runs, faint where there are several, and their mean at the steps that all finished ones have."""
    runs = [run for run in found["runs"] if run["arm"] == arm and run["curve"]]
    each = [replace(curve(arm, run["curve"], "accuracy"), low=None, high=None) for run in runs]
    if len(each) < 2:
        return each
    finished = [dict(zip(s.x, s.y, strict=True)) for s, run in zip(each, runs, strict=True) if run["finished"]]
    steps = sorted(set.intersection(*map(set, finished))) if finished else []
    mean = [fmean(curve[step] for curve in finished) for step in steps]
    return [*(Series(arm, s.x, s.y, faint=True) for s in each), Series(arm, steps, mean)]


def _table(found: Values, arms: Sequence[str]) -> Table:
    quantities = found["quantities"]
    names = list(dict.fromkeys(name for arm in arms for name in quantities[arm] if name not in ("seeds", "peak step")))
    rows = []
    for arm in arms:
        cells = [interval(quantities[arm].get(name)) for name in names]
        if "peak" in quantities[arm]:
            cells[names.index("peak")] += f" ({quantities[arm]['peak step']['mean']:.0f})"
        rows.append([arm, str(len(quantities[arm]["seeds"])), *cells])
    return Table("Arms", ["arm", "seeds", *("peak (step)" if name == "peak" else name for name in names)], rows)


def _differences(found: Values, arms: Sequence[str]) -> list[Table]:
    reference, names = found["reference"], ("peak", "final", "drop")
    rows = [
        [arm, *(interval(found["quantities"][arm].get(name, {}).get("difference"), "+") for name in names)]
        for arm in arms
        if arm != reference and found["quantities"][arm]["seeds"]
    ]
    note = "Seed by seed; not adjusted for the number of arms."
    return [Table(f"Minus {reference}", ["arm", *names], rows, note)] if rows else []
