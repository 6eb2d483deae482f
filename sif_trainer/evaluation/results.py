"""What an evaluation found, typed: `results.json` is `Results` written out, `load_results(folder)` reads it back.

Averages over a suite count every benchmark once (macro average), as the paper's do.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sif_trainer.evaluation.estimate import Estimate, macro_average, maj_at_k, mean_over_problems, pass_at_k
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.sample import Exam, fitting
from sif_trainer.evaluation.store import SampleStore, read_samples
from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.agreement import Ballot, answer_classes
from sif_trainer.tasks.load import Problem

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Scores:
    """The headline numbers, in [0, 1]. `pass_at` is keyed by k as text, because JSON is."""

    avg: Estimate
    pass_at: dict[str, Estimate]
    maj: Estimate
    avg_boxed: Estimate
    """avg@n where only answers in a box count: what a strict extractor would have given."""

    @classmethod
    def macro(cls, parts: Sequence[Scores]) -> Scores:
        """Return the macro average."""
        return cls(
            avg=macro_average([part.avg for part in parts]),
            pass_at={k: macro_average([part.pass_at[k] for part in parts]) for k in parts[0].pass_at},
            maj=macro_average([part.maj for part in parts]),
            avg_boxed=macro_average([part.avg_boxed for part in parts]),
        )


@dataclass(frozen=True)
class BenchmarkResult:
    """One benchmark. Rates are of samples; `prompts_sha` changes with any prompt or chat template."""

    version: int
    rule: str
    num_problems: int
    num_left_out: int
    num_samples: int
    scores: Scores
    truncated_rate: float
    unparsable_rate: float
    mean_length: float
    prompts_sha: str


@dataclass(frozen=True)
class Results:
    """A finished evaluation."""

    schema_version: int
    model: str
    identity: str
    decoding: dict[str, Any]
    seed: int
    benchmarks: dict[str, BenchmarkResult]
    average: Scores | None
    """Over benchmarks, where there are several."""
    circumstances: dict[str, Any]
    """Versions, git commit and hardware of the last start."""


def summarise(exams: Sequence[Exam], recipe: EvalRecipe, store: SampleStore) -> Results:
    """Turn the run's samples into results.

    Raises:
        UserError: when no prompt of a benchmark was short enough.
    """
    samples: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for record in read_samples(store.folder):
        kept = {name: value for name, value in record.items() if name not in ("text", "why")}
        samples[record["benchmark"], record["id"]][record["sample"]] = kept
    benchmarks = {exam.name: _benchmark(exam, fitting(exam, store), recipe, samples) for exam in exams}
    scores = [result.scores for result in benchmarks.values()]
    manifest = json.loads((store.folder / "manifest.json").read_text(encoding="utf-8"))
    return Results(
        schema_version=SCHEMA_VERSION,
        model=recipe.model,
        identity=json.loads((store.folder / "model.json").read_text(encoding="utf-8"))["identity"],
        decoding=recipe.decoding,
        seed=recipe.seed,
        benchmarks=benchmarks,
        average=Scores.macro(scores) if len(scores) > 1 else None,
        circumstances=manifest["starts"][-1],
    )


def _benchmark(
    exam: Exam,
    problems: Sequence[Problem],
    recipe: EvalRecipe,
    samples: Mapping[tuple[str, str], Mapping[int, dict[str, Any]]],
) -> BenchmarkResult:
    n = recipe.num_samples
    if not problems:
        raise UserError(
            f"{exam.name}: every prompt has more than max_prompt_length={recipe.max_prompt_length} tokens; "
            "raise the limit"
        )
    rows = [[samples[exam.name, problem.id][index] for index in range(n)] for problem in problems]
    every = [record for row in rows for record in row]
    ballots = [
        Ballot([_vote(record) for record in row], problem.rule, problem.fields)
        for row, problem in zip(rows, problems, strict=True)
    ]
    scores = [[record["score"] for record in row] for row in rows]
    num_correct = [sum(record["verdict"] == "correct" for record in row) for row in rows]
    boxed = [[record["score"] * record["boxed"] for record in row] for row in rows]
    majority = [maj_at_k(classes, row) for classes, row in zip(answer_classes(ballots), scores, strict=True)]
    return BenchmarkResult(
        version=exam.benchmark.version,
        rule=exam.benchmark.rule,
        num_problems=len(problems),
        num_left_out=len(exam.problems) - len(problems),
        num_samples=n,
        scores=Scores(
            avg=mean_over_problems([_mean(row) for row in scores], n),
            pass_at={str(k): mean_over_problems([pass_at_k(n, c, k) for c in num_correct], n // k) for k in recipe.ks},
            maj=mean_over_problems(majority),
            avg_boxed=mean_over_problems([_mean(row) for row in boxed], n),
        ),
        truncated_rate=_mean([record["finish_reason"] == "length" for record in every]),
        unparsable_rate=_mean([record["verdict"] == "unparsable" for record in every]),
        mean_length=_mean([record["num_tokens"] for record in every]),
        prompts_sha=hashlib.sha256("".join(row[0]["prompt_sha"] for row in rows).encode()).hexdigest()[:16],
    )


def _vote(record: Mapping[str, Any]) -> str | None:
    """Return a sample's answer; what the rule cannot read has no vote."""
    return None if record["verdict"] == "unparsable" else record["answer"]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def load_results(folder: Path) -> Results:
    """Read the results of a finished evaluation.

    Raises:
        UserError: no such results, or results of another version.
    """
    path = folder / "results.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} holds no finished evaluation ({error}); name the run folder of a `sif eval` that has ended"
        ) from error
    if values.get("schema_version") != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema version {values.get('schema_version')}, this program reads {SCHEMA_VERSION}; "
            "evaluate again"
        )
    benchmarks = {
        name: BenchmarkResult(**{**result, "scores": _scores(result["scores"])})
        for name, result in values["benchmarks"].items()
    }
    average = values["average"] and _scores(values["average"])
    return Results(**{**values, "benchmarks": benchmarks, "average": average})


def _scores(values: Mapping[str, Any]) -> Scores:
    return Scores(
        avg=Estimate(**values["avg"]),
        pass_at={k: Estimate(**estimate) for k, estimate in values["pass_at"].items()},
        maj=Estimate(**values["maj"]),
        avg_boxed=Estimate(**values["avg_boxed"]),
    )
