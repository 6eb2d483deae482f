"""The grader on pairs of prediction and reference: ours, by kind of trap, and the shared ones."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sif_trainer.tasks.grade import grade_many
from sif_trainer.tasks.rules import FIELDS
from sif_trainer.tasks.verdict import Grade, Item

PAIRS = Path(__file__).parent / "pairs"
Pair = dict[str, Any]


def read(path: Path) -> list[Pair]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def mistakes(pairs: list[Pair]) -> list[tuple[Pair, Grade]]:
    """Pairs whose score is not the expected one."""
    items = [
        Item(
            pair["pred"],
            pair["gold"],
            pair.get("rule", "math"),
            pair.get("kind", "answer"),
            {key: pair[key] for key in FIELDS if key in pair},
        )
        for pair in pairs
    ]
    return [
        (pair, grade) for pair, grade in zip(pairs, grade_many(items), strict=True) if grade.score != pair["expected"]
    ]


@pytest.mark.parametrize("name", ["math", "rules", "replies"])
def test_our_pairs_are_graded_as_expected(name: str) -> None:
    assert not mistakes(read(PAIRS / f"{name}.jsonl"))


def test_our_pairs_cover_every_kind_of_trap_with_both_verdicts() -> None:
    verdicts = defaultdict(set)
    for pair in read(PAIRS / "math.jsonl"):
        verdicts[pair["category"]].add(pair["expected"])
    one_sided = {category for category, seen in verdicts.items() if seen != {0, 1}}
    assert len(verdicts) >= 18 and one_sided <= {"dress"}


def test_the_shared_pairs_are_graded_as_expected(shared: Path) -> None:
    pairs = read(shared / "data" / "benchmarks" / "grader_pairs.jsonl")
    assert len(pairs) >= 43
    assert not mistakes(pairs)


def test_equality_of_mathematics_is_symmetric_on_our_pairs() -> None:
    """Swapping the sides may change a verdict only where the reference decides: its unit, its name, its being words or
    a set.
    """
    pairs = [
        pair
        for pair in read(PAIRS / "math.jsonl")
        if pair["category"] in ("fraction", "magnitude", "exactness", "sign", "symbolic")
    ]
    swapped = [{**pair, "pred": pair["gold"], "gold": pair["pred"]} for pair in pairs if pair["pred"].strip()]
    assert not mistakes(swapped)
