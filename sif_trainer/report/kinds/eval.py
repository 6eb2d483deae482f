"""The page of an evaluation: avg@n, pass@k and maj@n of each benchmark, and the samples by problem."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sif_trainer.report.blocks import Plot, Section, Series, Table, estimates, interval, percent
from sif_trainer.report.completions import JSON_TEXT, Group, Groups, index, member, prompt_text, visible
from sif_trainer.report.run import Run, Values

_BENCHMARK_AND_ID = re.compile(rb'\{"benchmark": ' + JSON_TEXT + rb', "id": ' + JSON_TEXT)


def verdict(run: Run) -> str:
    """The suite's average, or the only benchmark's."""
    results = run.json("results")
    if results is None:
        return f"{len(run.records('samples'))} samples have been drawn."
    names = list(results["benchmarks"])
    scores = results["average"] or results["benchmarks"][names[0]]["scores"]
    n = results["decoding"]["num_samples"]
    where = names[0] if len(names) == 1 else f"average over {len(names)} benchmarks"
    return (
        f"{results['model']}, {where}: avg@{n} {interval(scores['avg'])} %, maj@{n} {interval(scores['maj'])} %, with "
        "95 % intervals over problems."
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Draw one or more evaluations; of several, avg@n and maj@n side by side."""
    done = {run.label: results for run in runs if (results := run.json("results"))}
    if not done:
        return []
    parts: list[Plot | Table] = list(_plots(done))
    parts += [_table(label, results) for label, results in done.items()]
    return [Section("Results", parts)]


def groups(run: Run) -> Groups:
    """The samples of an evaluation, by problem."""
    prompts = {(row["benchmark"], row["id"]): row for row in run.records("prompts")}
    paths = sorted(run.path.glob("samples*.jsonl"))
    return index(paths, _BENCHMARK_AND_ID, lambda records: _group(records, prompts))


def _group(records: list[dict[str, Any]], prompts: Mapping[tuple[str, str], Values]) -> Group:
    """The samples of a problem in the order of their numbers, whatever process drew them."""
    first = records[0]
    problem = prompts.get((first["benchmark"], first["id"]), {})
    members, tags = [], set()
    for record in sorted({record["sample"]: record for record in records}.values(), key=lambda r: r["sample"]):
        facts = {name: visible(str(record[name] or "-")) for name in ("answer", "why")}
        facts |= {"tokens": str(record["num_tokens"]), "ended by": record["finish_reason"]}
        members.append(member(record["text"], record["verdict"], facts))
        tags |= {f"with a sample {record['verdict']}"}
        tags |= {"with a sample cut by the length"} if record["finish_reason"] == "length" else set()
    if not any(record["verdict"] == "correct" for record in records):
        tags.add("with no sample correct")
    name = visible(first["id"] + (f", reference {problem['gold']}" if "gold" in problem else ""))
    return Group(first["benchmark"], name, prompt_text(problem.get("prompt", "")), members, sorted(tags))


def _plots(done: Mapping[str, Values]) -> list[Plot]:
    note = "Percent, with 95 % intervals over problems."
    if len(done) > 1:
        return [
            Plot(title, "", title, [_points(label, results, key) for label, results in done.items()], note, "points",
                 percent=True)
            for key, title in {"avg": "avg@n", "maj": "maj@n"}.items()
        ]  # fmt: skip
    (results,) = done.values()
    n = results["decoding"]["num_samples"]
    ks = list(next(iter(results["benchmarks"].values()))["scores"]["pass_at"])
    series = [
        _points(f"avg@{n}", results, "avg"),
        *(_points(f"pass@{k}", results, "pass_at", k) for k in ks if int(k) > 1),
        _points(f"maj@{n}", results, "maj"),
    ]
    return [Plot("Scores by benchmark", "", "solved", series, note, "points", percent=True)]


def _points(label: str, results: Values, key: str, k: str | None = None) -> Series:
    scores = {name: result["scores"] for name, result in results["benchmarks"].items()}
    if results["average"]:
        scores["average"] = results["average"]
    return estimates(label, {name: found[key][k] if k else found[key] for name, found in scores.items()})


def _table(label: str, results: Values) -> Table:
    n = results["decoding"]["num_samples"]
    ks = list(next(iter(results["benchmarks"].values()))["scores"]["pass_at"])
    header = ["benchmark", "problems", f"avg@{n}", *(f"pass@{k}" for k in ks), f"maj@{n}", "boxed"]
    header += ["truncated", "unparsable", "tokens", "left out"]
    rows = [
        [
            name,
            str(result["num_problems"]),
            *_scores(result["scores"], ks),
            percent(result["truncated_rate"]),
            percent(result["unparsable_rate"]),
            f"{result['mean_length']:.0f}",
            str(result["num_left_out"]),
        ]
        for name, result in results["benchmarks"].items()
    ]
    if results["average"]:
        rows.append(["average", "", *_scores(results["average"], ks), "", "", "", ""])
    drawn = ", ".join(f"{name} {value}" for name, value in results["decoding"].items() if value not in (None, [], {}))
    note = f"Percent, with 95 % intervals over problems. Boxed: avg where only an answer in a box counts. {drawn}."
    return Table(f"Benchmarks, {label}", header, rows, note)


def _scores(scores: Values, ks: Sequence[str]) -> list[str]:
    found = [scores["avg"], *(scores["pass_at"][k] for k in ks), scores["maj"]]
    return [*map(interval, found), percent(scores["avg_boxed"]["value"])]
