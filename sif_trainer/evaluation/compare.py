"""Two evaluations of the same problems: the paired difference of avg@n, by benchmark and overall.

    comparison = compare(Path("runs/eval/before"), Path("runs/eval/after"))

Pairing takes the difficulty of the problems out of the comparison, so that its interval is narrower than those of the
two numbers suggest. Problems are matched by benchmark, id and content; what has no partner is counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from sif_trainer.evaluation.estimate import Estimate, macro_average, paired_difference
from sif_trainer.evaluation.results import Results, load_results
from sif_trainer.evaluation.store import read_samples
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import differences
from sif_trainer.runs.records import Records


@dataclass(frozen=True)
class Pair:
    """One benchmark: the means of the matched problems, and the second's minus the first's with its interval."""

    num_matched: int
    num_unmatched: int
    first: float
    second: float
    difference: Estimate


@dataclass(frozen=True)
class Comparison:
    """The second run against the first. `overall` counts every benchmark once."""

    first: str
    second: str
    benchmarks: dict[str, Pair]
    overall: Estimate | None
    unmatched_benchmarks: list[str]
    note: str | None


def compare(first: Path, second: Path, note: str | None = None) -> Comparison:
    """Return the paired differences of two finished evaluations.

    Args:
        first: run folder of the one that is compared with.
        second: run folder of the other.
        note: why decodings may differ; without one, different decodings are refused.

    Raises:
        UserError: a run that is not finished, different decodings, or no problem in common.
    """
    results = load_results(first), load_results(second)
    _same_decoding(*results, note=note)
    scores = _problem_scores(first), _problem_scores(second)
    both = [name for name in scores[0] if scores[0][name].keys() & scores[1].get(name, {}).keys()]
    benchmarks = {name: _pair(scores[0][name], scores[1][name]) for name in both}
    if not benchmarks:
        raise UserError(f"{first} and {second} have no problem in common; evaluate both models on the same benchmarks")
    return Comparison(
        first=f"{results[0].model} ({first})",
        second=f"{results[1].model} ({second})",
        benchmarks=benchmarks,
        overall=macro_average([pair.difference for pair in benchmarks.values()]) if len(benchmarks) > 1 else None,
        unmatched_benchmarks=sorted((scores[0].keys() | scores[1].keys()) - benchmarks.keys()),
        note=note,
    )


def _same_decoding(first: Results, second: Results, note: str | None) -> None:
    found = differences(second.decoding, first.decoding)
    if found and not note:
        texts = [f"{key} is {side['reference']!r} and {side['here']!r}" for key, side in found.items()]
        raise UserError(
            f"the runs differ in decoding: {', '.join(texts)}; evaluate both alike, or say why with --note TEXT"
        )


def _problem_scores(folder: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Return each problem's mean score by benchmark, then (id, digest of the problem's text and reference)."""
    shas = {
        (record["benchmark"], record["id"]): record["problem_sha"]
        for record in Records(folder / "prompts.jsonl", False)
    }
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in read_samples(folder):
        scores[record["benchmark"], record["id"]].append(record["score"])
    found: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for (benchmark, problem_id), values in scores.items():
        found[benchmark][problem_id, shas[benchmark, problem_id]] = sum(values) / len(values)
    return found


def _pair(first: dict[tuple[str, str], float], second: dict[tuple[str, str], float]) -> Pair:
    keys = sorted(first.keys() & second.keys())
    ours, theirs = [first[key] for key in keys], [second[key] for key in keys]
    return Pair(
        num_matched=len(keys),
        num_unmatched=len(first.keys() ^ second.keys()),
        first=sum(ours) / len(keys),
        second=sum(theirs) / len(keys),
        difference=paired_difference(ours, theirs),
    )
