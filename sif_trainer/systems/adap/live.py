"""Live searches of many problems, in a run folder that is resumed at any point.

    run = RunFolder.open("runs/adap-cipher", "adap search", recipe.settings, seed=recipe.seed)
    summary = run_search(run, recipe)

`trace.jsonl` holds every draw, score and verdict, `results.jsonl` a line per problem. A run that was killed plays its
unfinished searches again over the trace, so that no draw is repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sif_trainer.evaluation.estimate import mean_over_problems, paired_difference
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.progress import Progress
from sif_trainer.systems.adap.best_of_n import Fixed, at_equal_cost, settle
from sif_trainer.systems.adap.intervals import Resampled
from sif_trainer.systems.adap.journal import Journal
from sif_trainer.systems.adap.parts import Problem
from sif_trainer.systems.adap.recipe import Parts, SearchRecipe
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.search import in_threads, search_many


def run_search(run: RunFolder, recipe: SearchRecipe) -> dict[str, Any]:
    """Search the recipe's problems and return the summary, with best-of-N at equal cost where it is asked for."""
    if run.finished:
        return run.summary
    problems = recipe.load_problems()
    parts = recipe.open_parts(run)
    journal = Journal(run.records("trace"))
    results = _searched(run, recipe, problems, parts, journal)
    mean_cost = sum(result["cost"] for result in results) / len(results)
    fixed = at_equal_cost(recipe.costs, mean_cost) if recipe.best_of_n and recipe.measure == "given" else {}
    settled = {name: _settled(run, recipe, problems, parts, journal, name, fixed[name]) for name in fixed}
    summary = summarise(results, recipe.costs, fixed, settled)
    if isolation := getattr(parts[2], "isolation", None):  # how programs of the policy were kept in
        summary["isolation"] = isolation.level
    run.finish(summary)
    return run.summary


def _searched(
    run: RunFolder, recipe: SearchRecipe, problems: Sequence[Problem], parts: Parts, journal: Journal
) -> list[dict[str, Any]]:
    """Search the problems that the run's results lack; return all results in the problems' order."""
    records = run.records("results")
    known = {record["id"]: record for record in records}
    missing = [problem for problem in problems if problem.id not in known]
    with Progress("search", len(problems), "problem", len(known)) as progress:
        for result in search_many(missing, *parts, recipe.costs, recipe.budget, recipe.how, journal, recipe.in_flight):
            known[result.id] = result.to_json()
            records.append(known[result.id])
            progress.update(note=f"{journal.num_draws} draws")
    return [known[problem.id] for problem in problems]


def _settled(
    run: RunFolder,
    recipe: SearchRecipe,
    problems: Sequence[Problem],
    parts: Parts,
    journal: Journal,
    name: str,
    numbers: Fixed,
) -> list[bool]:
    """Return whether the fixed policy solves each problem; one record each."""
    records = run.records(name)
    known = {record["id"]: record["success"] for record in records}
    missing = [problem for problem in problems if problem.id not in known]

    def one(problem: Problem) -> tuple[str, bool]:
        return problem.id, settle(problem, *parts, journal, numbers)

    with Progress(name, len(problems), "problem", len(known)) as progress:
        for problem_id, success in in_threads(one, missing, recipe.in_flight, journal):
            known[problem_id] = success
            records.append({"id": problem_id, "success": success})
            progress.update(note=f"{journal.num_draws} draws")
    return [known[problem.id] for problem in problems]


def summarise(
    results: Sequence[Mapping[str, Any]],
    costs: Costs,
    fixed: Mapping[str, Fixed],
    settled: Mapping[str, Sequence[bool]],
) -> dict[str, Any]:
    """Return statuses, success and costs with intervals over problems, and each fixed policy's success beside it."""
    solved = [float(result["status"] == "verified") for result in results]
    resampled = Resampled.of(len(results))
    means = {
        key: asdict(resampled.mean(np.array([result[key] for result in results], dtype=float)))
        for key in ("cost", "num_draws", "num_verifications")
    }
    return {
        "num_problems": len(results),
        "status": dict(Counter(result["status"] for result in results)),
        "stopped_by": dict(Counter(result["stopped_by"] for result in results if result["stopped_by"])),
        "success_rate": asdict(mean_over_problems(solved)),
        **means,
        "num_errors": sum(result["num_errors"] for result in results),
        "num_shared": sum(result["num_shared"] for result in results),
        **{
            name: {
                **numbers._asdict(),
                "cost": float(costs.price(*numbers)),
                "success_rate": asdict(mean_over_problems(list(map(float, settled[name])))),
                "search_minus_this": asdict(paired_difference(list(map(float, settled[name])), solved)),
            }
            for name, numbers in fixed.items()
        },
    }


def format_search(summary: Mapping[str, Any]) -> str:
    """Return a search's summary as text."""
    status = ", ".join(f"{name} {number}" for name, number in summary["status"].items())
    lines = [
        f"{summary['num_problems']} problems: {status}",
        f"{'':<12}{'N_rew':>8}{'N_ver':>8}{'cost':>9}  success",
        f"{'search':<12}{summary['num_draws']['value']:>8.1f}{summary['num_verifications']['value']:>8.1f}"
        f"{summary['cost']['value']:>9.1f}  {_percent(summary['success_rate'])}; mean cost "
        f"[{summary['cost']['low']:.1f}, {summary['cost']['high']:.1f}]",
    ]
    for name in ("best_of_n", "unranked"):
        if name in summary:
            row = summary[name]
            lines.append(
                f"{name:<12}{row['num_draws']:>8}{row['num_verifications']:>8}{row['cost']:>9.1f}  "
                f"{_percent(row['success_rate'])}; search minus this {_percent(row['search_minus_this'])}"
            )
    return "\n".join(lines)


def _percent(estimate: Mapping[str, float]) -> str:
    return f"{estimate['value']:.1%} [{estimate['low']:.1%}, {estimate['high']:.1%}]"
