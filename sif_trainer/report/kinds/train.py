"""The page of a training run: held-out accuracy, the vote, the responses, the update, and the paper's tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sif_trainer.report.blocks import Plot, Section, Series, Table, curve, interval, number, percent, smooth
from sif_trainer.report.completions import Group, Groups, index, member, prompt_text, visible
from sif_trainer.report.run import Run

_STEP_AND_GROUP = re.compile(rb'\{"step": (\d+), .*?"group": (\d+), ')
_VOTE = {  # metric: (title, y, percent, what to look for)
    "rewards/sif/mean": ("Reward", "mean reward", False, "Over eligible responses."),
    "sif/eligible_rate": ("Eligible", "responses", True, "Long enough for all windows, with finite logits."),
    "sif/keep_rate": ("Kept", "responses", True, "In the update mask; never above eligible."),
    "sif/window_margin": ("Window margin", "windows", False, "Windows won minus lost between peers, absolute."),
}
_RESPONSES = {
    "sif/certainty_mean": ("Certainty", "nats", False, "A steady climb is the first sign of overconfidence."),
    "sif/certainty_variance": (
        "Variance of certainty",
        "nats²",
        False,
        "Within a response. It rises when mean-certainty rewards collapse (paper, Figure 8).",
    ),
    "sif/entropy": ("Entropy", "nats", False, "Of the sampling distribution. A crash to 0 is collapse."),
    "sif/length": ("Length", "tokens", False, "Valid tokens of a response."),
    "sif/truncated_rate": ("Truncated", "responses", True, "Without an end token."),
    "sif/repetition_rate": ("Repetition", "4-grams", True, "Token 4-grams that the response held before."),
    "sif/top_word_share": ("Most frequent word", "of all words", True, "Paper, Figure 7."),
}
_UPDATE = {
    "kl": ("KL to the reference", "nats per kept token", False, "Past 1 the policy has left the reference."),
    "grad_norm": ("Gradient norm", "before clipping", False, "0 when nothing is kept."),
    "step_time": ("Time of a step", "seconds", False, ""),
}  # fmt: skip


def verdict(run: Run) -> str:
    """Held-out accuracy from the start to the end, by its intervals."""
    validation, metrics = run.records("validation"), run.records("metrics")
    steps = metrics[-1]["step"] if metrics else 0
    collapsed = (run.summary or {}).get("collapsed_at")
    alarm = f" The run collapsed at step {collapsed}, by its monitors of health." if collapsed is not None else ""
    if len(validation) == 1:
        start = f"Held-out accuracy was {_accuracy(validation[0])} % at step {validation[0]['step']}"
        return f"{start}, and has not been measured since; {steps} steps have been logged." + alarm
    if not validation:
        return f"{steps} steps; no held-out accuracy was measured, so that nothing is said of progress." + alarm
    first, last = validation[0], validation[-1]
    best = max(validation[1:], key=lambda record: record["accuracy"])
    apart = first["accuracy_high"] < last["accuracy_low"] or last["accuracy_high"] < first["accuracy_low"]
    direction = "rose" if last["accuracy"] > first["accuracy"] else "fell"
    change = f"{direction} from {_accuracy(first)} % to {_accuracy(last)} %"
    if not apart:
        change = f"went from {_accuracy(first)} % to {_accuracy(last)} %, intervals that overlap,"
    return (
        f"Held-out accuracy {change} in {last['step']} steps; its best was {percent(best['accuracy'])} % "
        f"at step {best['step']}." + alarm
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw one or more training runs; of several, every figure has a line per run."""
    found = [Section("Held-out accuracy", [*_held_out(runs), *_moments_table(runs)])] if _measured(runs) else []
    return [*found, *progress(runs)]


def progress(runs: Sequence[Run]) -> list[Section]:
    """Draw what a training run logs step by step, and the tables made of it."""
    metrics = {run.label: run.records("metrics") for run in runs}
    if not any(metrics.values()):
        return [Section("Progress", texts=["No step has been logged yet."])]
    parts = [
        Section("The vote", [*_monitors(metrics), *_panels(metrics, _VOTE)]),
        Section("The responses", _panels(metrics, _RESPONSES)),
        Section("The update and its cost", [*_panels(metrics, _UPDATE), *_time_shares(metrics)]),
    ]
    tables = [table for run in runs for table in _paper_tables(run)]
    alarms = [_alarms(run) for run in runs if run.records("health")]
    return [*parts, *([Section("The paper's tables", tables)] if tables else []), *alarms]


def groups(run: Run) -> Groups:
    """The sampled groups of a training run."""
    return index([run.path / "samples.jsonl"], _STEP_AND_GROUP, lambda records: _group(records, run.config))


def _group(records: list[dict[str, Any]], config: dict[str, Any]) -> Group:
    """The responses to a prompt, and what the vote made of them."""
    first = records[0]
    monitors = [key for key in first if key.startswith("monitor/")]
    members, tags = [], set()
    for record in records:
        winner = record["keep"] and record["reward"] == 1
        badge = (
            "winner" if winner else "kept" if record["keep"] else "not kept" if record["eligible"] else "not eligible"
        )
        tags |= {f"with a response {badge}" if badge != "winner" else "with a winner"}
        tags |= {"with a truncated response"} if record["truncated"] else set()
        tags |= {f"with a winner at 0 by {m.partition('/')[2]}" for m in monitors if winner and record[m] == 0}
        facts = {
            "reward": number(record["reward"]),
            "advantage": number(record["advantage"], "+"),
            "peers beaten": number(record["peer_wins"]),
            "tokens": str(record["length"]) + (", truncated" if record["truncated"] else ""),
        }
        facts |= {name.partition("/")[2]: number(record[name]) for name in monitors}
        members.append(
            member(
                record["completion"],
                badge,
                facts,
                tokens=record.get("tokens", ()),
                certainty=record.get("token_certainty", ()),
                profile=record["profile"],
                windows_won=record["windows_won"],
            )
        )
    if not any(record["keep"] for record in records):
        tags.add("with nothing kept")
    name = str(first["id"] if first["id"] is not None else f"group {first['group']}")
    return Group(
        f"step {first['step']}",
        visible(name),
        prompt_text(first["prompt"]),
        members,
        sorted(tags),
        config.get("window_wins"),
    )


def _measured(runs: Sequence[Run]) -> bool:
    return any(run.records("validation") for run in runs)


def _held_out(runs: Sequence[Run]) -> list[Plot]:
    validation = {run.label: run.records("validation") for run in runs}
    name = "accuracy" if len(runs) == 1 else None
    series = [curve(name or label, rows, "accuracy") for label, rows in validation.items()]
    if name:
        (rows,) = validation.values()
        series.append(curve("greedy", rows, "greedy"))
    note = "Problems that training never sees. Bands are 95 % intervals over problems."
    return [Plot("Held-out accuracy", "step", "accuracy", series, note, percent=True)]


def _moments_table(runs: Sequence[Run]) -> list[Table]:
    rows = []
    for run in runs:
        records = run.records("validation")
        trained = records[1:] or records
        if records:
            best = max(trained, key=lambda record: record["accuracy"])
            for name, record in {"before": records[0], "best": best, "last": records[-1]}.items():
                rates = [percent(record[key]) for key in ("greedy", "truncated_rate")]
                rows.append(
                    [run.label, name, str(record["step"]), _accuracy(record), *rates, f"{record['length']:.0f}"]
                )
    header = ["run", "at", "step", "accuracy, %", "greedy, %", "truncated, %", "tokens"]
    return [Table("Before, best and last", header, rows, "With 95 % intervals over problems.")]


def _accuracy(record: dict[str, Any]) -> str:
    return interval({"value": record["accuracy"], "low": record["accuracy_low"], "high": record["accuracy_high"]})


def _panels(metrics: dict[str, list[dict[str, Any]]], wanted: dict[str, tuple[str, str, bool, str]]) -> list[Plot]:
    plots = []
    for key, (title, y, as_percent, note) in wanted.items():
        series = [curve(label, rows, key) for label, rows in metrics.items()]
        lines = [line for one in series if one.x for line in smooth(one)]
        if lines:
            plots.append(Plot(title, "step", y, lines, note, percent=as_percent))
    return plots


def _monitors(metrics: dict[str, list[dict[str, Any]]]) -> list[Plot]:
    """Accuracy (or another monitor) of all, kept and winning training responses; of several runs, of all."""
    names = dict.fromkeys(key.split("/")[1] for rows in metrics.values() for row in rows for key in row
                          if key.startswith("monitor/"))  # fmt: skip
    plots = []
    for name in names:
        which = ("all", "kept", "winners") if len(metrics) == 1 else ("all",)
        lines = [
            line
            for label, rows in metrics.items()
            for one in which
            for line in smooth(curve(one if len(metrics) == 1 else label, rows, f"monitor/{name}/{one}"))
            if line.x
        ]
        note = "Training responses against reference answers, which only this monitor reads. Kept above all: the vote "
        note += "picks better ones (paper, Table 4)."
        plots.append(Plot(f"Monitor: {name}", "step", name, lines, note, percent=_fractions(lines)))
    return plots


def _fractions(lines: Sequence[Series]) -> bool:
    return all(0 <= y <= 1 for line in lines for y in line.y if y is not None)


def _time_shares(metrics: dict[str, list[dict[str, Any]]]) -> list[Plot]:
    plots = []
    for label, rows in metrics.items():
        shares = [curve(part, rows, f"time/{part}_share") for part in ("generate", "score", "update")]
        if shares[0].x:
            of = f", {label}" if len(metrics) > 1 else ""
            plots.append(
                Plot(f"Where the time goes{of}", "step", "of a step", shares, "Stacked.", form="stack", percent=True)
            )
    return plots


def _paper_tables(run: Run) -> list[Table]:
    found = run.findings or {}
    tables = []
    of = f", {run.label}"
    if found.get("moments"):
        header = ["at", "step", "certainty", "variance", "top word share", "concentration", "top word"]
        names = ("certainty_mean", "certainty_variance", "top_word_share", "concentration")
        rows = [
            [row["moment"], str(row["step"]), *(number(row[name]) for name in names), (row["top_word"] or "-")[:24]]
            for row in found["moments"]
        ]
        tables.append(Table(f"Certainty and words (Figures 7 and 8){of}", header, rows))
    rows = [
        [pair["monitor"], name, "{}-{}".format(*part["steps"]), percent(part["all"]), percent(part["kept"]),
         interval(part["difference"], "+")]
        for pair in found.get("kept", ())
        for name, part in pair["moments"].items()
    ]  # fmt: skip
    if rows:
        header = ["monitor", "at", "steps", "all, %", "kept, %", "kept minus all"]
        tables.append(Table(f"Kept against all (Table 4){of}", header, rows, "Intervals over this run's steps."))
    rows = [
        [str(row["step"]), number(row["certainty_mean"]), percent(row["accuracy"])] for row in found.get("proxy", ())
    ]
    if rows:
        header = ["step", "mean certainty", "held-out accuracy, %"]
        tables.append(Table(f"Proxy against accuracy (Table 10){of}", header, rows))
    return tables


def _alarms(run: Run) -> Section:
    records = run.records("health")
    header = list(dict.fromkeys(key for record in records for key in record))
    rows = [[str(record.get(key, "-")) for key in header] for record in records]
    return Section(f"Alarms of {run.label}", [Table("Alarms", header, rows)])
