"""What a probe found, for people: `probe.md` and the terminal. `sif probe` ends with it.

    show_probe(Path("runs/probe/smoke/quickstart"))

Accuracies are percentages, differences percentage points, with 95 % intervals over prompts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sif_trainer.report.evaluation import markdown_table, percent
from sif_trainer.runs.records import write_atomically

Values = Mapping[str, Any]

_LIMITS = (
    "The verdict is about the first steps on prompts like these: it foresees neither collapse later on nor what "
    "learning rate, KL term and length of training do. It tells which way the first steps push, not how much is "
    "gained. Rules side by side were not adjusted for their number. See docs/probe.md."
)
_RULES = (
    "`winners`: kept responses with a positive advantage. `lift`: in groups with right and wrong responses, accuracy "
    "of what is pushed up minus accuracy of what is pushed down, weighted by advantage; 0 is no information, 100 what "
    "the answers themselves would give."
)


def show_probe(folder: Path) -> None:
    """Read `summary.json`, write `probe.md` beside it, and print the page."""
    text = probe_page(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
    write_atomically(folder / "probe.md", text)
    print(text, end="")
    print(f"\ngroups and their responses: {folder / 'groups.jsonl'}\nnumbers: {folder / 'summary.json'}")


def probe_page(summary: Values) -> str:
    """Return the Markdown page: verdict, vote, windows, and, as far as answers allow, rules and certainty."""
    verdict = summary["verdict"]
    lines = ["# Probe", "", f"**{verdict['word'].capitalize()}**: {verdict['reason']}.", ""]
    if verdict["warnings"]:
        lines += [*(f"- Note: {warning}." for warning in verdict["warnings"]), ""]
    lines += [*_vote(summary), "", *_windows(summary["windows"]), ""]
    if summary["agreement"]:
        lines += [*_agreement(summary["feedback"], summary["agreement"]), ""]
    lines += [*_rules(summary), ""]
    if summary["num_mixed_groups"]:
        lines += [*_auc(summary), ""]
    return "\n".join([*lines, "## Limits", "", _LIMITS, ""])


def _vote(summary: Values) -> list[str]:
    vote, responses = summary["vote"], summary["responses"]
    short, median, long = (f"{responses['length_quantiles'][q]:.0f}" for q in ("10", "50", "90"))
    num_windows = summary["windows"]["recipe"]["num_windows"]
    rows_per_step = summary["prompts_per_step"] * summary["num_generations"]
    rows = [
        ["groups x responses", f"{summary['num_groups']} x {summary['num_generations']}"],
        ["length, tokens", f"median {median}, 10 % below {short}, 10 % above {long}"],
        ["truncated", f"{responses['truncated_rate']:.1%}"],
        ["certainty, nats", f"{responses['certainty_mean']:.2f} (variance {responses['certainty_variance']:.2f})"],
        ["entropy, nats", f"{responses['entropy_mean']:.2f}"],
        ["eligible", f"{vote['eligible_rate']:.1%}"],
        ["kept", f"{vote['keep_rate']:.1%}"],
        ["groups kept", f"{vote['group_keep_rate']:.1%}"],
        ["winners per group", f"{vote['winners_per_group']:.2f}"],
        ["kept per step", f"{summary['kept_per_step']:.1f} of {rows_per_step} responses"],
    ]
    if vote["window_margin"] is not None:
        rows.append(["window margin", f"{vote['window_margin']:.2f} of {num_windows}"])
    if summary["answer_rate"] is not None:
        rows.append(["answer found", f"{summary['answer_rate']:.1%}"])
    if summary["num_graded_groups"]:
        rows.append(["accuracy, %", _percent(summary["accuracy"])])
        rows.append(
            ["groups with right and wrong", f"{summary['num_mixed_groups']} of {summary['num_graded_groups']}"]
        )
    return [f"## The vote of {summary['feedback']}", "", *markdown_table(["", ""], rows)]


def _windows(windows: Values) -> list[str]:
    header = ["windows", "w", "s", "K", "tau_w", "L_min", "eligible", "kept", "winners/group", "lift"]
    rows = [
        [
            name,
            *(str(row[key]) for key in ("window_size", "min_stride", "num_windows", "window_wins", "min_length")),
            f"{row['eligible_rate']:.1%}",
            f"{row['keep_rate']:.1%}",
            f"{row['winners_per_group']:.2f}",
            _points(row["lift"]),
        ]
        for name, row in windows.items()
    ]
    note = "The vote of sif on the same samples; as suggested, nine of ten responses are long enough to vote."
    return ["## Windows", "", *markdown_table(header, rows), "", note]


def _agreement(feedback: str, found: Values) -> list[str]:
    rows = [[name, _percent(found[name])] for name in ("all", "kept", "winners")]
    rows.append(["pushed up minus down", _points(found["lift"])])
    return [
        "## Agreement with the majority answer",
        "",
        *markdown_table([f"responses of {feedback}", "give the majority's answer"], rows),
        "",
        f"The majority answer has {found['majority_share']:.0%} of a group on average; "
        f"{found['winners_without_answer']} winners give no answer.",
    ]


def _rules(summary: Values) -> list[str]:
    graded = bool(summary["num_graded_groups"])
    header = ["rule", "eligible", "kept", "winners/group"]
    header += ["accuracy of kept", "kept - all", "winners", "lift"] if graded else []
    rows = []
    for name, row in summary["rules"].items():
        cells = [name, f"{row['eligible_rate']:.1%}", f"{row['keep_rate']:.1%}", f"{row['winners_per_group']:.2f}"]
        if graded:
            cells += [_percent(row["kept"]), _points(row["kept_minus_all"]), _percent(row["winners"])]
            cells.append(_points(row["lift"]))
        rows.append(cells)
    notes = [f"- Not shown: {name}, because {reason}." for name, reason in summary["left_out"].items()]
    title = "Accuracy by rule (paper: Table 4)" if graded else "Votes by rule"
    return [f"## {title}", "", *markdown_table(header, rows), "", *([_RULES, ""] if graded else []), *notes]


def _auc(summary: Values) -> list[str]:
    rows = [[name, _percent(found)] for name, found in summary["auc"].items() if found]
    note = (
        f"From {summary['num_mixed_groups']} groups that have both: the chance that a right response scores higher "
        "than a wrong one of its group, in percent; 50 is chance. "
        "Windows go from the surest tokens to the least sure."
    )
    return ["## Does certainty know? (within-group AUC)", "", *markdown_table(["score", "AUC"], rows), "", note]


def _percent(estimate: Values | None) -> str:
    return percent(estimate) if estimate else "-"


def _points(estimate: Values | None) -> str:
    return percent(estimate, sign="+") if estimate else "-"
