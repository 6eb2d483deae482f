"""`sif grade` and `sif overlap`: lines in, lines out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sif_trainer.cli.main import main

Grader = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run_grade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Grader:
    """Grades rows and returns the lines that came out."""

    def run(rows: list[dict[str, Any]], *arguments: str) -> list[dict[str, Any]]:
        file = tmp_path / "answers.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        assert main(["grade", str(file), *arguments]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_lines_come_out_in_order_with_four_fields(run_grade: Grader) -> None:
    rows = [{"pred": str(index), "gold": "3", "kind": "answer"} for index in range(600)]
    lines = run_grade(rows)
    assert [line["score"] for line in lines] == [float(index == 3) for index in range(600)]
    assert set(lines[0]) == {"score", "verdict", "extracted", "why"}


def test_rules_fields_and_kinds_are_read_from_the_line(run_grade: Grader) -> None:
    lines = run_grade(
        [
            {"pred": "AB", "gold": "ABD", "rule": "jeebench", "type": "MCQ(multiple)", "kind": "answer"},
            {"pred": "6.2e-12", "gold": "6.1", "rule": "scibench", "unit": "$10^{-12}$ m", "note": "ignored"},
            {"pred": r"I think \boxed{3} cats", "gold": 3},
            {"pred": "0.5", "gold": "1/2"},
            {"pred": 0.5, "gold": "1/2"},
            {"pred": "it is 17", "gold": "17", "rule": "gsm8k", "kind": "response"},
            {"pred": "\ud800 \x00", "gold": "\u00bd"},
        ]
    )
    assert [line["score"] for line in lines] == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert lines[2]["extracted"] == "3" and lines[0]["verdict"] == "wrong"


def test_a_rule_for_all_lines(run_grade: Grader) -> None:
    assert run_grade([{"pred": "B", "gold": "(b)"}], "--rule", "mcq")[0]["score"] == 1.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"gold": "1"}, "line 2: no 'pred' in it"),
        ({"pred": "1"}, "line 2: no 'gold' in it"),
        ({"pred": ["1"], "gold": "1"}, "line 2: 'pred' must be a text or a number"),
        ({"pred": "1", "gold": None}, "line 2: 'gold' must be a text or a number, not None"),
        ({"pred": "1", "gold": "1", "rule": "mat"}, "line 2: there is no rule 'mat'; did you mean 'math'?"),
        ({"pred": "1", "gold": "1", "kind": "essay"}, "line 2: kind is 'essay'"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_graded(
    row: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps({"pred": "1", "gold": "1"}) + "\n" + json.dumps(row) + "\n")
    assert main(["grade", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_an_empty_a_missing_and_a_broken_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "broken.jsonl").write_text('{"pred": "1", "gold": "1"}\n{"pred": \n')
    for name, message in [("empty", "no answers in it"), ("missing", "no such file"), ("broken", "line 2")]:
        assert main(["grade", str(tmp_path / f"{name}.jsonl")]) == 2
        assert message in capsys.readouterr().err


def test_standard_input_in_a_process_of_its_own(sif: Any) -> None:
    done = sif("grade", "-", input='{"pred": "2/4", "gold": "0.5"}\n')
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"] == "correct"
    assert "grade: 1/1 answers" in done.stderr


def test_overlap_lists_matches_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": "e1", "problem": "What is 2+2?", "answer": "4"},
        {"id": "e2", "problem": "What is 3?", "answer": "3"},
    ]
    (tmp_path / "math500.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = tmp_path / "train.jsonl"
    training.write_text(json.dumps({"id": "t1", "prompt": "What is $2 + 2$ ?"}) + "\n")
    assert main(["overlap", "math500", "--data-dir", str(tmp_path), "--training", str(training)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["evaluation_id"] == "e1"
    assert captured.err == "math500: 1 of 2 problems stand in the training prompts word for word, 0 nearly so\n"
