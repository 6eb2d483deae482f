"""What a study's runs came to: peak, final and drop of held-out accuracy per arm, over seeds, against the reference.

    results = study_results(Path("runs/study/cipher"))      # plain values; report/study.py draws them

A run's peak is its highest accuracy after a step; the drop is peak minus final (paper: Tables 3 and 11). The paper has
one run per arm; here a quantity is the mean over seeds with Student's 95 % interval, and the difference to the
reference is taken seed by seed. Only finished runs count; what failed or goes on is listed beside the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sif_trainer.analysis.interval import mean_interval
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import Records

Curve: TypeAlias = list[dict[str, Any]]


def study_results(folder: Path) -> dict[str, Any]:
    """Read the runs of a study and return its shown settings, every curve, and the quantities of each arm.

    Raises:
        UserError: when the folder holds no study.
    """
    file = folder / "study.json"
    if not file.exists():
        raise UserError(f"{folder} holds no study yet (there is no {file}); start it without --report")
    study = json.loads(file.read_text(encoding="utf-8"))
    failed = {(r["arm"], r["seed"]): r["failed"] for r in Records(folder / "runs.jsonl", writer=False)}
    runs = [run for arm in study["arms"] for run in _runs(folder / arm, arm, failed)]
    finished = {
        arm: {run["seed"]: run["curve"] for run in runs if run["arm"] == arm and run["finished"]}
        for arm in study["arms"]
    }
    return {**study, "runs": runs, "quantities": compare(finished, study["reference"], study["shown_steps"])}


def _runs(folder: Path, arm: str, failed: Mapping[tuple[str, int], str | None]) -> list[dict[str, Any]]:
    """Return an arm's runs in the order of their seeds."""
    runs = []
    there = {int(path.name.removeprefix("seed")) for path in folder.glob("seed*")}
    for seed in sorted(there | {seed for name, seed in failed if name == arm}):
        path = folder / f"seed{seed}"
        runs.append(
            {
                "arm": arm,
                "seed": seed,
                "finished": (path / "summary.json").exists(),
                "failed": failed.get((arm, seed)),
                "curve": list(Records(path / "validation.jsonl", writer=False)),
            }
        )
    return runs


def compare(
    finished: Mapping[str, Mapping[int, Curve]], reference: str, shown_steps: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """Return for every arm and quantity its estimate over seeds and, paired by seed, its difference to the reference.

    Args:
        finished: from an arm and a seed to the run's validation records.
        reference: the arm that the others are compared with.
        shown_steps: steps whose accuracy is a quantity of its own, `step N`.

    Returns:
        `{arm: {"seeds": [...], quantity: {"mean", "low", "high", "difference": {...} or None}}}`; an arm without a
        finished run has no quantities.
    """
    longest = max((curve[-1]["step"] for curves in finished.values() for curve in curves.values()), default=0)
    steps = [step for step in shown_steps if step <= longest]
    measured = {
        arm: {seed: quantities(curve, steps) for seed, curve in sorted(curves.items())}
        for arm, curves in finished.items()
    }
    others = measured.get(reference, {})
    results: dict[str, dict[str, Any]] = {}
    for arm, by_seed in measured.items():
        results[arm] = {"seeds": list(by_seed)}
        for name in ("before", "peak", "peak step", *(f"step {step}" for step in steps), "final", "drop"):
            values = {seed: found[name] for seed, found in by_seed.items() if name in found}
            pairs = [values[seed] - others[seed][name] for seed in values if name in others.get(seed, {})]
            if values:
                difference = mean_interval(pairs) if pairs and arm != reference else None
                results[arm][name] = {**mean_interval(list(values.values())), "difference": difference}
    return results


def quantities(curve: Curve, steps: Sequence[int]) -> dict[str, float]:
    """Return one run's quantities: accuracy before training, at its peak, at the given steps and at the end; drop.

    After the end of a run that was stopped early, as by `health: stop`, its last accuracy holds.
    """
    accuracy = {record["step"]: record["accuracy"] for record in curve}
    trained = {step: value for step, value in accuracy.items() if step > 0} or accuracy
    peak_step = max(trained, key=lambda step: (trained[step], -step))
    last = max(accuracy)
    at_steps = {f"step {step}": accuracy[min(step, last)] for step in steps if min(step, last) in accuracy}
    return {
        **({"before": accuracy[0]} if 0 in accuracy else {}),
        "peak": trained[peak_step],
        "peak step": peak_step,
        **at_steps,
        "final": accuracy[last],
        "drop": trained[peak_step] - accuracy[last],
    }
