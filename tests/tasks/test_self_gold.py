"""The references of every benchmark graded against themselves: as the answer, boxed in a reply, and respelled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sif_trainer.tasks.benchmarks import BENCHMARKS
from sif_trainer.tasks.grade import grade_many
from sif_trainer.tasks.load import Problem, load_benchmark
from sif_trainer.tasks.rules import reads
from sif_trainer.tasks.verdict import Item

NAMES = [name for name, entry in BENCHMARKS.items() if entry.file]
UNREADABLE = {"omni_math": 212, "college_math": 301}  # prose, systems, definitions: what only a judge can grade


@pytest.fixture
def problems(request: pytest.FixtureRequest, shared: Path) -> list[Problem]:
    return load_benchmark(request.param, shared / "data" / "benchmarks")


@pytest.mark.filterwarnings("ignore:.*cannot be read by rule")
@pytest.mark.parametrize("problems", NAMES, indirect=True)
def test_every_reference_is_its_own_answer(problems: list[Problem]) -> None:
    entry = BENCHMARKS[problems[0].benchmark]
    assert len(problems) == entry.num_problems
    grades = grade_many(Item(p.gold, p.gold, p.rule, "answer", p.fields) for p in problems)
    assert [(p.id, p.gold, grade) for p, grade in zip(problems, grades, strict=True) if grade.score != 1.0] == []


@pytest.mark.filterwarnings("ignore:.*cannot be read by rule")
@pytest.mark.parametrize("problems", NAMES, indirect=True)
def test_every_reference_in_a_box_is_found_in_a_reply(problems: list[Problem]) -> None:
    """A reference with a box of its own or a stray bracket cannot be boxed; nor one in `$` here."""
    whole = [p for p in problems if "\\boxed" not in p.gold and p.gold.count("{") == p.gold.count("}")]
    assert len(whole) >= 0.98 * len(problems)
    grades = grade_many(Item(f"So it is $\\boxed{{{p.gold}}}$.", p.gold, p.rule, "response", p.fields) for p in whole)
    assert [(p.id, p.gold, grade) for p, grade in zip(whole, grades, strict=True) if grade.score != 1.0] == []


NUMERIC = re.compile(r"(?:[-\d\s/+{}]|\\(?:[dt]?frac|sqrt|pi|cdot)(?![a-z]))+")


def respell(gold: str) -> str:
    return re.sub(r"\\[dt]?frac", r"\\tfrac", gold)


@pytest.mark.filterwarnings("ignore:.*cannot be read by rule")
@pytest.mark.parametrize("problems", ["math500", "hmmt_feb_2025", "olympiadbench"], indirect=True)
def test_respelled_references_are_right_and_shifted_ones_are_wrong(problems: list[Problem]) -> None:
    """Numbers under other commands, with blanks, as a sum; the same plus one is wrong."""
    numeric = [problem for problem in problems if NUMERIC.fullmatch(problem.gold)][:150]
    assert len(numeric) > 20
    respelled = [Item(f" {respell(p.gold)} + 0 ", p.gold, "math", "answer", p.fields) for p in numeric]
    shifted = [Item(f"{p.gold} + 1", p.gold, "math", "answer", p.fields) for p in numeric]
    assert [(i.gold, g) for i, g in zip(respelled, grade_many(respelled), strict=True) if g.score != 1.0] == []
    assert [(i.gold, g) for i, g in zip(shifted, grade_many(shifted), strict=True) if g.score != 0.0] == []


@pytest.mark.parametrize("name", NAMES)
def test_unreadable_references_are_few_and_reported(name: str, shared: Path) -> None:
    expected = UNREADABLE.get(name, 0)
    if expected:
        with pytest.warns(UserWarning, match=f"{name}: {expected} of .* references cannot be read"):
            problems = load_benchmark(name, shared / "data" / "benchmarks")
    else:
        problems = load_benchmark(name, shared / "data" / "benchmarks")
    assert sum(not reads(p.rule, p.gold) for p in problems) == expected
