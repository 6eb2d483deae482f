"""The page of an ADAP run: how often the search found a verified answer, at what cost, against fixed plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sif_trainer.report.blocks import Plot, Section, estimates, interval, number
from sif_trainer.report.completions import BY_ID, Group, Groups, index, member, prompt_text, visible
from sif_trainer.report.run import Run, Values
from sif_trainer.report.summaries import tables_of


def verdict(run: Run) -> str:
    """Success and cost of the search; of the other stages, what they counted."""
    summary = run.summary
    if summary is None:
        return f"{len(run.records('results'))} problems have been searched."
    if run.stage != "search":
        counts = [f"{name.replace('_', ' ')} {number(value)}" for name, value in summary.items()
                  if isinstance(value, int | float)]  # fmt: skip
        return f"The stage {run.stage} has finished: {', '.join(counts) or 'see its tables'}."
    against = [
        f" {name.replace('_', ' ')} with {plan['num_draws']} draws for {number(plan['cost'])}: "
        f"{interval(plan['success_rate'])} %."
        for name, plan in _plans(summary).items()
    ]
    return (
        f"The search verified an answer to {interval(summary['success_rate'])} % of {summary['num_problems']} "
        f"problems at a mean cost of {interval(summary['cost'], write=number)}.{''.join(against)}"
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw each run on its own."""
    return [
        Section(f"Results of {run.label}", [*(_plots(run.summary) if run.stage == "search" else []),
                                            *tables_of(run.summary)])
        for run in runs
        if run.summary is not None
    ]  # fmt: skip


def groups(run: Run) -> Groups:
    """The draws of a search, by problem."""
    return index([run.path / "trace.jsonl"], BY_ID, _group)


def _group(records: list[dict[str, Any]]) -> Group:
    """Draws, scores and verdicts of one problem; a draw that was never verified says so."""
    first = records[0]
    prompt = next((record["prompt"] for record in records if record["event"] == "problem"), "")
    told: dict[str, dict[int, dict[str, Any]]] = {"draw": {}, "score": {}, "verdict": {}}
    for record in records:
        if record["event"] in told:  # the scores of a vote are of all draws, and come under `vote`
            told[record["event"]][record["index"]] = record
    members, tags = [], set()
    for place, draw in sorted(told["draw"].items()):
        verdict = told["verdict"].get(place, {"outcome": "not verified", "detail": "-"})
        badge = {"pass": "verified", "fail": "refuted"}.get(verdict["outcome"], verdict["outcome"])
        facts = {
            "score": number(told["score"].get(place, {}).get("score")),
            "answer": visible(draw["answer"] or "-"),
            "verifier": visible(verdict["detail"]),
        }
        text = draw["sample"]["text"] if "sample" in draw else draw["text"]
        members.append(member(text, badge, facts))
        tags.add(f"with a draw {badge}")
    return Group("problem", visible(str(first["id"])), prompt_text(prompt), members, sorted(tags))


def _plans(summary: Values) -> dict[str, Values]:
    """The fixed plans that were settled on the same draws."""
    return {name: summary[name] for name in ("best_of_n", "unranked") if name in summary}


def _plots(summary: Values) -> list[Plot]:
    rates = {"search": summary["success_rate"]} | {n: plan["success_rate"] for n, plan in _plans(summary).items()}
    note = "With 95 % intervals over problems; fixed plans cost at least as much as the search."
    spent = {name.removeprefix("num_"): summary[name] for name in ("cost", "num_draws", "num_verifications")}
    return [
        Plot("Success", "", "problems", [estimates("success", rates)], note, "points", percent=True),
        Plot("What a search takes", "", "per problem", [estimates("search", spent)], form="points"),
    ]
