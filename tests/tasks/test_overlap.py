"""The overlap report: exact copies as recorded with the shared data, near copies, and what is no copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import read_json_lines
from sif_trainer.tasks.overlap import find_overlap, letters_and_digits, prompt_text

FILES = {
    "math500": "math500.jsonl",
    "math_test": "math_test.jsonl.gz",
    "olympiadbench": "olympiadbench.jsonl",
    "omni_math": "omni_math.jsonl.gz",
    "college_math": "college_math.jsonl",
}
LONG = "A farmer sells 12 baskets of apples for 3 dollars each and then buys 5 hens for 4 dollars each at the market"


def problems(shared: Path, file: str) -> dict[str, str]:
    return {row["id"]: row["problem"] for _, row in read_json_lines(shared / "data" / "benchmarks" / file)}


@pytest.mark.parametrize("name", FILES)
def test_exact_copies_are_those_recorded_with_the_data(name: str, shared: Path) -> None:
    recorded = json.loads((shared / "data" / "benchmarks" / "overlap_with_train.json").read_text())[name]
    report = find_overlap(problems(shared, FILES[name]), problems(shared, "math_train.jsonl.gz"))
    assert sorted([m.evaluation_id, m.training_id] for m in report.matches if m.is_same) == sorted(recorded)
    assert len(report.ids) < 0.05 * report.num_problems


def test_spelling_between_letters_and_digits_does_not_hide_a_copy() -> None:
    report = find_overlap({"q": "What is $2+2$?"}, {"t": "what is 2 + 2", "u": "What is 2+3?"})
    assert [(m.training_id, m.share, m.is_same) for m in report.matches] == [("t", 1.0, True)]
    assert letters_and_digits("Ab-1 c!") == "ab1c"


def test_a_reworded_end_is_a_near_copy_and_other_numbers_are_none() -> None:
    reworded = LONG + " today?"
    other = LONG.replace("12", "15").replace("3", "7").replace("5", "6")
    report = find_overlap({"q": reworded}, {"t": LONG, "u": other})
    assert [(m.training_id, m.is_same) for m in report.matches] == [("t", False)] and 0.8 <= report.matches[
        0
    ].share < 1
    assert find_overlap({"q": reworded}, {"u": other}).ids == frozenset()


def test_a_report_says_how_many_and_which_to_drop() -> None:
    report = find_overlap({"a": "one two", "b": LONG + " today", "c": "three"}, {"t": "One, two!", "u": LONG})
    assert report.ids == {"a", "b"}
    assert report.explain().startswith("1 of 3 problems") and report.explain().endswith("1 nearly so")


def test_prompts_may_be_texts_or_messages() -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert prompt_text({"problem": "p"}) == "p" and prompt_text({"prompt": messages}) == "u"
    with pytest.raises(UserError, match="no column problem, prompt or question; it has: id, text"):
        prompt_text({"id": "1", "text": "?"})
