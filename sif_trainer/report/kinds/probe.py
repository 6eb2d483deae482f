"""The page of a probe: whether internal feedback is likely to help, every rule's lift, and the sampled groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sif_trainer.report.blocks import Plot, Section, estimates, number
from sif_trainer.report.completions import BY_ID, Group, Groups, index, member, prompt_text, visible
from sif_trainer.report.run import Run, Values
from sif_trainer.report.summaries import tables_of


def verdict(run: Run) -> str:
    """The probe's own verdict."""
    if run.summary is None:
        return f"{len(run.records('groups'))} groups have been sampled."
    found = run.summary["verdict"]
    return f"{run.summary['feedback']}: {found['word']}. {found['reason'][:1].upper()}{found['reason'][1:]}."


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw each probe on its own."""
    return [
        Section(f"What {run.label} found", [*_plots(run.summary), *tables_of(_numbers(run.summary))],
                run.summary["verdict"]["warnings"])
        for run in runs
        if run.summary is not None
    ]  # fmt: skip


def groups(run: Run) -> Groups:
    """The sampled groups."""
    return index([run.path / "groups.jsonl"], BY_ID, _group)


def _group(records: list[dict[str, Any]]) -> Group:
    """The responses to a prompt, which are one record."""
    (record,) = records
    members, tags = [], set()
    for response in record["responses"]:
        correct = response["correct"]
        badge = "not graded" if correct is None else "correct" if correct == 1 else "wrong"
        facts = {"certainty": number(response["certainty_mean"]), "tokens": f"{response['length']:.0f}"}
        members.append(member(response["completion"], badge, facts, profile=response["profile"]))
        tags.add(f"with a response {badge}")
    return Group("prompt", visible(str(record["id"])), prompt_text(record.get("prompt", "")), members, sorted(tags))


def _numbers(summary: Values) -> Values:
    return {name: value for name, value in summary.items() if name != "verdict"}


def _plots(summary: Values) -> list[Plot]:
    lifts = {name: rule["lift"] for name, rule in summary["rules"].items() if rule.get("lift")}
    aucs = {name: estimate for name, estimate in summary["auc"].items() if estimate}
    plots = []
    if lifts:
        note = "How much more often what a rule pushes up is right than what it pushes down; 0 is no information."
        plots.append(Plot("Lift by rule", "", "lift", [estimates("lift", lifts)], note, "points"))
    if aucs:
        note = "Chance that a right response of a group scores above a wrong one; one half is no information."
        plots.append(Plot("Within-group AUC", "", "AUC", [estimates("AUC", aucs)], note, "points"))
    return plots
