"""Results in the layout of lm-evaluation-harness, so that its dashboards and scripts read them.

    export(Path("runs/eval/mine"))     # runs/eval/mine/lm_eval/MODEL/results_DATE.json, samples_TASK_DATE.jsonl

The layout is that of version 0.4: metrics are named `metric,filter` with `metric_stderr,filter` beside them. The
filter is `none` for answers as our rules read them, and `boxed` where only a box counts. A standard error is the
interval's width over 3.92, so that whoever adds 1.96 of them gets our interval back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from sif_trainer.evaluation.estimate import Estimate
from sif_trainer.evaluation.results import BenchmarkResult, Results, Scores, load_results
from sif_trainer.evaluation.store import read_samples
from sif_trainer.runs.records import Records, strict_json, write_atomically

GROUP = "average"
STANDARD_ERRORS = 3.92
"""In the width of a 95 % interval."""


def export(folder: Path) -> Path:
    """Write a finished evaluation in the other layout, and return the folder of the files.

    Raises:
        UserError: the evaluation is not finished.
    """
    results = load_results(folder)
    started = datetime.fromisoformat(results.circumstances["at"])
    date = started.replace(tzinfo=None).isoformat().replace(":", "-")
    target = folder / "lm_eval" / re.sub(r'["<>:/|\\?*\[\]]+', "__", results.model)
    target.mkdir(parents=True, exist_ok=True)
    hashes = {}
    for task, lines in _samples(folder, results).items():
        write_atomically(target / f"samples_{task}_{date}.jsonl", "".join(f"{strict_json(line)}\n" for line in lines))
        hashes[task] = _hash("".join(line["doc_hash"] + line["prompt_hash"] + line["target_hash"] for line in lines))
    summary = {**_summary(results), "date": started.timestamp(), "task_hashes": hashes}
    write_atomically(target / f"results_{date}.json", strict_json(summary, indent=2) + "\n")
    return target


def _summary(results: Results) -> dict[str, Any]:
    tasks = results.benchmarks
    decoding = results.decoding
    gen_kwargs = {
        "do_sample": decoding["temperature"] > 0,
        "temperature": decoding["temperature"],
        "top_p": decoding["top_p"],
        "top_k": decoding["top_k"],
        "max_gen_toks": decoding["max_completion_length"],
        "until": decoding["stop"],
    }
    versions = results.circumstances["versions"]
    summary: dict[str, Any] = {
        "results": {task: _metrics(task, result.scores, decoding["num_samples"]) for task, result in tasks.items()},
        "group_subtasks": {task: [] for task in tasks},
        "configs": {task: _config(task, result, gen_kwargs) for task, result in tasks.items()},
        "versions": {task: result.version for task, result in tasks.items()},
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {
            task: dict.fromkeys(_names(result.scores, decoding["num_samples"]), True) for task, result in tasks.items()
        },
        "n-samples": {
            task: {"original": result.num_problems + result.num_left_out, "effective": result.num_problems}
            for task, result in tasks.items()
        },
        "config": {
            "model": results.identity.partition(":")[0],
            "model_args": f"pretrained={results.model}",
            "gen_kwargs": gen_kwargs,
            "random_seed": results.seed,
            "numpy_seed": results.seed,
            "torch_seed": results.seed,
        },
        "git_hash": results.circumstances["git"],
        "transformers_version": versions.get("transformers"),
        "model_source": results.identity.partition(":")[0],
        "model_name": results.model,
        "model_name_sanitized": re.sub(r'["<>:/|\\?*\[\]]+', "__", results.model),
        "system_instruction": decoding["system_prompt"],
    }
    if results.average is not None:
        group = {GROUP: _metrics(GROUP, results.average, decoding["num_samples"])}
        summary["results"] |= group
        summary["groups"] = group
        summary["group_subtasks"] |= {GROUP: list(tasks)}
    return summary


def _metrics(name: str, scores: Scores, n: int) -> dict[str, Any]:
    found: dict[str, Any] = {"alias": name}
    for metric, estimate in _named(scores, n):
        found[metric] = estimate.value
        found[metric.replace(",", "_stderr,")] = (estimate.high - estimate.low) / STANDARD_ERRORS
    return found


def _named(scores: Scores, n: int) -> list[tuple[str, Estimate]]:
    passes = [(f"pass@{k},none", estimate) for k, estimate in scores.pass_at.items()]
    return [
        ("exact_match,none", scores.avg),
        ("exact_match,boxed", scores.avg_boxed),
        *passes,
        (f"maj@{n},none", scores.maj),
    ]


def _names(scores: Scores, n: int) -> Iterable[str]:
    return dict.fromkeys(name.partition(",")[0] for name, _ in _named(scores, n))


def _config(task: str, result: BenchmarkResult, gen_kwargs: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": task,
        "output_type": "generate_until",
        "num_fewshot": 0,
        "repeats": result.num_samples,
        "generation_kwargs": gen_kwargs,
        "metadata": {"version": result.version, "rule": result.rule, "prompts_sha": result.prompts_sha},
    }


def _samples(folder: Path, results: Results) -> dict[str, list[dict[str, Any]]]:
    """Return one line per problem and task, its responses in a list."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in read_samples(folder):
        found[record["benchmark"], record["id"]].append(record)
    tasks: dict[str, list[dict[str, Any]]] = {task: [] for task in results.benchmarks}
    for problem in Records(folder / "prompts.jsonl", writer=False):
        samples = sorted(found.get((problem["benchmark"], problem["id"]), []), key=lambda record: record["sample"])
        if samples:
            lines = tasks[problem["benchmark"]]
            lines.append(_line(len(lines), problem, samples))
    return tasks


def _line(number: int, problem: dict[str, Any], samples: list[dict[str, Any]]) -> dict[str, Any]:
    doc = {"id": problem["id"], "problem_sha": problem["problem_sha"]}
    return {
        "doc_id": number,
        "doc": doc,
        "target": problem["gold"],
        "arguments": {"gen_args_0": {"arg_0": problem["prompt"], "arg_1": {}}},
        "resps": [[record["text"] for record in samples]],
        "filtered_resps": [record["answer"] for record in samples],
        "filter": "none",
        "metrics": ["exact_match"],
        "exact_match": sum(record["score"] for record in samples) / len(samples),
        "doc_hash": _hash(json.dumps(doc, sort_keys=True)),
        "prompt_hash": _hash(problem["prompt"]),
        "target_hash": _hash(problem["gold"]),
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
