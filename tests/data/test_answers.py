"""Reference answers by prompt id, from the sources that prompts come from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sif_trainer.data.answers import Answer, load_answers
from sif_trainer.data.sources import read_rows
from sif_trainer.runs.errors import UserError


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz"])
def test_answers_are_found_by_the_prompts_ids(tmp_path: Path, name: str) -> None:
    rows = [{"id": "p1", "problem": "?", "answer": "1/2"}, {"problem": "?", "answer": 7, "unit": "cm", "level": 3}]
    source = write(tmp_path / name, rows)
    answers = load_answers(source)
    assert answers == {"p1": Answer("1/2"), "1": Answer("7", {"unit": "cm"})}
    assert set(answers) == {row["id"] for row in read_rows(source)}


def test_the_final_answer_of_a_solution_is_taken(tmp_path: Path) -> None:
    rows = [
        {"id": "m", "solution": r"First $\boxed{3}$, then \boxed{\frac{1}{2}}."},
        {"id": "g", "answer": "x\n#### 1,200"},
    ]
    assert load_answers(write(tmp_path / "a.jsonl", rows)) == {"m": Answer(r"\frac{1}{2}"), "g": Answer("1200")}


def test_rows_without_an_answer_are_left_out(tmp_path: Path) -> None:
    rows = [{"id": "a", "problem": "?", "answer": None}, {"id": "b", "problem": "?", "answer": "2"}]
    assert list(load_answers(write(tmp_path / "a.jsonl", rows))) == ["b"]


def test_no_answers_at_all_is_an_error_that_names_the_columns(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [{"id": "a", "problem": "?", "target": "2"}])
    with pytest.raises(UserError, match=r"its columns: id, problem, target; name the right one with answer_column"):
        load_answers(source)
    assert load_answers(source, answer_column="target") == {"a": Answer("2")}


def test_a_number_is_taken_as_its_text_and_what_is_neither_is_named(tmp_path: Path) -> None:
    rows = [{"id": str(i), "problem": "?", "answer": answer} for i, answer in enumerate([12, 0.5, -3, 1e-7])]
    assert [answer.gold for answer in load_answers(write(tmp_path / "a.jsonl", rows)).values()] == [
        "12", "0.5", "-3", "1e-07",
    ]  # fmt: skip
    for wrong in ([12], True, {"value": 3}):
        source = write(tmp_path / "b.jsonl", [*rows, {"id": "x", "problem": "?", "answer": wrong}])
        with pytest.raises(UserError, match=r"row 'x': answer is .*, and an answer is a text or a number; write it"):
            load_answers(source)


def test_the_limit_is_the_prompts_limit(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [{"problem": "?", "answer": str(index)} for index in range(5)])
    assert list(load_answers(source, limit=2)) == ["0", "1"]


def test_a_procedural_source_brings_what_its_scorer_needs() -> None:
    pytest.importorskip("reasoning_gym")
    answers = load_answers("reasoning_gym:chain_sum", limit=3, seed=5)
    rows = read_rows("reasoning_gym:chain_sum", limit=3, seed=5)
    assert {row["id"]: row["answer"] for row in rows} == {name: answer.gold for name, answer in answers.items()}
    assert (
        answers["0"].fields["dataset"] == "chain_sum"
        and answers["0"].fields["entry"]["question"] == rows[0]["problem"]
    )
