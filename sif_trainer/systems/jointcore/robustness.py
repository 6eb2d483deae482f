"""Does a selection hold when its omissions are shown otherwise, or the labels change? (108 tasks, selection not rerun)

    sif jointcore robust jointcore/smollm2-135m

Three readings of success, ours first. `success`: the final action is the one that the task calls for, and is carried
out. `shown_success`: it is right for what the prompt literally shows (`literal.py`). `published_success`: it is what
the oracle makes of the kept set, which counts a model as right that errs on the full memory and then drops
everything, and expects the opposite of what a counterfactual XOR prompt says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.jointcore.interview import Interview, Replies, interview
from sif_trainer.systems.jointcore.literal import shown_truth
from sif_trainer.systems.jointcore.memory import mask_of
from sif_trainer.systems.jointcore.model import MakeJudge, ModelRecipe, judge_tasks, mean
from sif_trainer.systems.jointcore.prompts import Question, TerminalQuestion
from sif_trainer.systems.jointcore.selectors import SELECTORS
from sif_trainer.systems.jointcore.tasks import Task, robustness_tasks

METHODS = ("jointcore_cost_ordered", "conditional_singleton_cost")
READINGS = ("success", "shown_success", "published_success")
VARIANTS = {  # in the order of the published table: (omission, labels); primary and unknown are the same prompt
    "primary": ("unknown", "boolean"),
    "deletion": ("deletion", "boolean"),
    "unknown": ("unknown", "boolean"),
    "pending": ("pending", "boolean"),
    "counterfactual": ("counterfactual", "boolean"),
    "direct": ("unknown", "direct"),
    "ab": ("unknown", "ab"),
}


def examine(task: Task, budget: int) -> Interview:
    """Select with both methods, then ask about each kept set in every variant; return the task's record."""
    selected = yield from interview(task, {name: SELECTORS[name] for name in METHODS}, budget)
    kept = {name: mask_of(row["retained"]) for name, row in selected["methods"].items()}
    replies = Replies()
    finals = {(m, v): Question(task, kept[m], *how) for m in METHODS for v, how in VARIANTS.items()}
    yield from replies.ask(finals.values())
    terminals = {key: TerminalQuestion(task, replies.action(q), q.labels) for key, q in finals.items()}
    yield from replies.ask(terminals.values())
    methods: dict[str, dict[str, Any]] = {name: {} for name in METHODS}
    for (method, variant), question in finals.items():
        action, committed = replies.action(question), replies.action(terminals[method, variant])
        carried_out = committed == ("COMMIT" if action == "EXECUTE" else "HALT")
        shown = task.action_when_sufficient if shown_truth(question) else task.action_when_insufficient
        methods[method][variant] = {
            "action": action,
            "success": carried_out and action == task.action_when_sufficient,
            "shown_success": carried_out and action == shown,
            "published_success": carried_out and action == task.right_action(question.kept),
        }
    return {"index": task.index, "task": task.key, "control_correct": selected["control_correct"], "methods": methods}


def run_robustness(run: RunFolder, recipe: ModelRecipe, judge: MakeJudge) -> dict[str, Any]:
    """Examine the tasks, each `recipe.every`-th of the 108, and return the summary."""
    if not run.finished:
        tasks = list(robustness_tasks())[:: recipe.every]
        records = judge_tasks(run, tasks, lambda task: examine(task, recipe.budget), judge, recipe.in_flight)
        run.finish(summarise(records))
    return run.summary


def summarise(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return {reading: {method: {variant: mean}}}, with the archive fallback by both readings."""
    rates = {
        reading: {
            method: {v: mean(record["methods"][method][v][reading] for record in records) for v in VARIANTS}
            for method in METHODS
        }
        for reading in READINGS
    }
    return {
        "num_tasks": len(records),
        "control_rate": mean(record["control_correct"] for record in records),
        **rates,
        "fallback": fallback(rates["success"], ties_count=False),
        "published_fallback": fallback(rates["published_success"], ties_count=True),
    }


def fallback(rates: Mapping[str, Mapping[str, float | None]], ties_count: bool) -> bool:
    """Return whether the order of the two methods depends on the labels, so that the full archive is to be kept.

    By the published rule a tie counts as JointCore being at least as good, so a tie under one pair of labels and a
    loss under the other disagree (`ties_count`). By ours only opposite orders do.
    """
    signs = []
    for labels in ("direct", "ab"):
        first, second = (rates[method][labels] or 0.0 for method in METHODS)
        signs.append((first > second) - (first < second))
    if ties_count:
        return (signs[0] >= 0) != (signs[1] >= 0)
    return signs[0] * signs[1] < 0


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return a summary as a table of text: JointCore / singleton for each variant and reading."""
    lines = [f"{'variant':<16}" + "".join(f"{reading:>20}" for reading in READINGS)]
    for variant in VARIANTS:
        pairs = [[summary[reading][method][variant] for method in METHODS] for reading in READINGS]
        lines.append(f"{variant:<16}" + "".join(f"{f'{a:.3f} / {b:.3f}':>20}" for a, b in pairs))
    lines.append(
        f"{summary['num_tasks']} tasks, JointCore / singleton; archive fallback: {summary['fallback']} "
        f"(as published: {summary['published_fallback']})"
    )
    return "\n".join(lines)
