"""From the records of a study to its numbers: accuracy, rounds, calls and tokens per case, by method.

summarise(run.records("cases"), methods=("balar", "direct"), rounds=(5, 10))
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sif_trainer.evaluation.estimate import mean_over_problems, paired_difference

PARTS = ("agent", "user", "measuring")
TOKENS = ("num_prompt_tokens", "num_generated_tokens")


def summarise(records: Sequence[Mapping[str, Any]], methods: Sequence[str], rounds: Sequence[int]) -> dict[str, Any]:
    """Return num_cases and, by method, what `_method` says; with BALAR's paired advantage over each of the others."""
    own = {method: [record for record in records if record["method"] == method] for method in methods}
    found = {method: _method(rows, rounds) for method, rows in own.items()}
    for method in methods:
        if "balar" in own and method != "balar":
            by_case = {record["case"]: float(record["correct"]) for record in own[method]}
            theirs = [by_case[record["case"]] for record in own["balar"]]
            ours = [float(record["correct"]) for record in own["balar"]]
            found[method]["balar_minus_this"] = vars(paired_difference(theirs, ours))
    return {"num_cases": max(map(len, own.values())), "methods": found}


def _method(rows: Sequence[Mapping[str, Any]], rounds: Sequence[int]) -> dict[str, Any]:
    correct = [float(row["correct"]) for row in rows]
    accuracy = sum(correct) / len(rows)
    whole = [row for row in rows if "error" not in row]
    found: dict[str, Any] = {
        "accuracy": vars(mean_over_problems(correct)),
        "standard_error": math.sqrt(accuracy * (1 - accuracy) / len(rows)),  # as in the paper
        "accuracy_after": {str(k): vars(mean_over_problems([_right_after(row, k) for row in rows])) for k in rounds},
        "num_failed": len(rows) - len(whole),
        "num_asks": _mean([row["num_asks"] for row in whole]),
        "num_expansions": _mean([row["rounds"].count("E") for row in whole]),
        "asking_by_round": _shares(whole, "A"),
        "expanding_by_round": _shares(whole, "E"),
        "ended_by": dict(Counter(row["ended_by"] for row in whole)),
        "used": {part: _per_case([row["used"].get(part, {}) for row in rows]) for part in PARTS},
        "counts": _totals([part for row in rows for part in row["used"].values()]),
    }
    if any("strictly_correct" in row for row in whole):
        strict = [float(row.get("strictly_correct", False)) for row in rows]
        found["strict_accuracy"] = vars(mean_over_problems(strict))
    return found


def _right_after(row: Mapping[str, Any], k: int) -> float:
    """Return whether the answer after k questions was right: the last one where no more were put."""
    return float(row.get("earlier", {}).get(str(k), row)["correct"])


def _shares(rows: Sequence[Mapping[str, Any]], letter: str) -> list[float]:
    """Return for each round the share of all cases that did this in it."""
    longest = max((len(row["rounds"]) for row in rows), default=0)
    return [sum(row["rounds"][t : t + 1] == letter for row in rows) / len(rows) for t in range(longest)]


def _per_case(used: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return calls (answered from the cache or not) and tokens per case."""
    calls = [row.get("num_calls", 0) + row.get("num_cache_hits", 0) for row in used]
    return {"num_calls": _mean(calls), **{name: _mean([row.get(name, 0) for row in used]) for name in TOKENS}}


def _totals(used: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return over all cases how many replies were invalid, and what the elicitor counts: merged, corrected, ..."""
    names = {name for part in used for name in part} - {"num_calls", "num_cache_hits", *TOKENS}
    return {name: sum(part.get(name, 0) for part in used) for name in sorted({"num_invalid_replies", *names})}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return the table of methods, accuracy in percent with its standard error."""
    head = f"{'method':<26}{'accuracy':>9}{'s.e.':>6}{'asks':>7}{'expands':>9}{'calls':>8}{'tokens in':>11}{'out':>8}"
    lines = [head + f"{'invalid':>9}{'failed':>8}"]
    for name, row in summary["methods"].items():
        agent = row["used"]["agent"]
        lines.append(
            f"{name:<26}{100 * row['accuracy']['value']:>9.1f}{100 * row['standard_error']:>6.1f}"
            f"{row['num_asks']:>7.1f}{row['num_expansions']:>9.1f}{agent['num_calls']:>8.0f}"
            f"{agent['num_prompt_tokens']:>11.0f}{agent['num_generated_tokens']:>8.0f}"
            f"{row['counts']['num_invalid_replies']:>9}{row['num_failed']:>8}"
        )
    lines.append(f"{summary['num_cases']} cases; calls and tokens are the agent's, per case")
    lines.append("a reply that was known from another method or case counts as a call, without tokens")
    return "\n".join(lines)
