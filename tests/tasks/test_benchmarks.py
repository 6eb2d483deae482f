"""Benchmark entries and the loader: what users may get wrong is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from sif_trainer.runs.errors import UserError
from sif_trainer.tasks import hub
from sif_trainer.tasks.benchmarks import BENCHMARKS, SUITES, benchmark, expand
from sif_trainer.tasks.load import load_benchmark
from sif_trainer.tasks.rules import RULES

ROWS = [{"id": f"p{index}", "problem": f"What is {index}+1?", "answer": str(index + 1)} for index in range(5)]


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_suites_name_benchmarks_and_benchmarks_name_rules() -> None:
    assert len(SUITES["sif12"]) == 12 and set(SUITES) == {"sif12", "math", "science", "smoke"}
    assert {name for names in SUITES.values() for name in names} <= set(BENCHMARKS)
    for entry in BENCHMARKS.values():
        assert entry.rule in RULES and entry.licence and entry.version > 0
        assert bool(entry.file) != bool(entry.parts) or entry.name == "cipher"
        assert all(benchmark(part).rule == entry.rule for part in entry.parts)
    assert sum(BENCHMARKS[part].num_problems for part in BENCHMARKS["aime"].parts) == BENCHMARKS["aime"].num_problems


def test_names_expand_in_order_and_once() -> None:
    assert expand(["amc23", "science", "scibench"]) == ["amc23", *SUITES["science"]]


@pytest.mark.parametrize("call", [lambda: expand(["maht"]), lambda: benchmark("maht"), lambda: load_benchmark("maht")])
def test_an_unknown_name_names_the_nearest(call: Any) -> None:
    with pytest.raises(UserError, match=r"'maht'; did you mean 'math'\?"):
        call()


def test_problems_are_read_in_order_up_to_the_limit(tmp_path: Path) -> None:
    problems = load_benchmark("math500", write(tmp_path, "math500.jsonl", ROWS), limit=3)
    assert [problem.id for problem in problems] == ["p0", "p1", "p2"]
    assert problems[1].gold == "2" and problems[1].rule == "math" and problems[1].text == "What is 1+1?"
    assert problems[1].prompt.startswith("What is 1+1?") and "\\boxed{}" in problems[1].prompt
    assert problems[1].messages == [{"role": "user", "content": problems[1].prompt}]


def test_a_gzipped_file_will_do(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "math500.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(ROWS[0]))
    assert len(load_benchmark("math500", tmp_path)) == 1


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"math500\.jsonl.*prm800k.*HuggingFaceH4/MATH-500"):
        load_benchmark("math500", tmp_path)


def test_missing_fields_are_named_with_their_lines(tmp_path: Path) -> None:
    rows = [ROWS[0], {"id": "x", "problem": "?"}, {"id": "y", "answer": " "}, ROWS[1]]
    with pytest.raises(UserError, match=r"line 2 lacks answer; line 3 lacks problem, answer"):
        load_benchmark("math500", write(tmp_path, "math500.jsonl", rows))


def test_a_repeated_id_and_a_line_that_is_no_json_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 2 repeats id p0"):
        load_benchmark("math500", write(tmp_path, "math500.jsonl", [ROWS[0], ROWS[0]]))
    (tmp_path / "amc23.jsonl").write_text('{"id": 1}\n{oops\n')
    with pytest.raises(UserError, match="line 2"):
        load_benchmark("amc23", tmp_path)


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no problems"):
        load_benchmark("math500", write(tmp_path, "math500.jsonl", []))


def test_references_that_no_rule_reads_are_counted_and_kept(tmp_path: Path) -> None:
    rows = [*ROWS, {"id": "prose", "problem": "Why?", "answer": "Since $a > b$ whenever the sequence converges"}]
    with pytest.warns(UserWarning, match="math500: 1 of 6 references cannot be read .*: prose"):
        problems = load_benchmark("math500", write(tmp_path, "math500.jsonl", rows))
    assert len(problems) == 6


def test_options_unit_and_type_reach_prompt_and_grader(tmp_path: Path) -> None:
    row = {**ROWS[0], "options": ["cold", "warm"], "answer": "B"}
    problem = load_benchmark("scienceqa", write(tmp_path, "scienceqa_text.jsonl", [row]))[0]
    assert "(A) cold\n(B) warm" in problem.prompt and problem.fields == {"options": ["cold", "warm"]}
    problem = load_benchmark("scibench", write(tmp_path, "scibench.jsonl", [{**ROWS[0], "unit": "$10^3$ m "}]))[0]
    assert "in units of $10^3$ m." in problem.prompt and problem.fields == {"unit": "$10^3$ m "}
    problem = load_benchmark(
        "jeebench", write(tmp_path, "jeebench.jsonl", [{**ROWS[0], "type": "MCQ", "answer": "A"}])
    )[0]
    assert "Exactly one option" in problem.prompt and problem.fields == {"type": "MCQ"}
    with pytest.raises(UserError, match="line 1 lacks type"):
        load_benchmark("jeebench", write(tmp_path, "jeebench.jsonl", [ROWS[0]]))


def test_the_two_contests_of_the_papers_aime_are_one_benchmark(shared: Path) -> None:
    problems = load_benchmark("aime", shared / "data" / "benchmarks")
    assert len({problem.id for problem in problems}) == 60 and {problem.benchmark for problem in problems} == {"aime"}


def test_the_embedded_world_needs_no_file() -> None:
    problems = load_benchmark("cipher", limit=5)
    assert len(problems) == 5 and {problem.rule for problem in problems} == {"cipher"}


class FakeHub:
    """Stands in for `datasets.load_dataset`."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __call__(self, *_: Any, **__: Any) -> Dataset:
        return Dataset.from_list(self.rows)


def test_hub_rows_get_our_names_and_final_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.load_dataset", FakeHub([{"question": "1+1?", "answer": "1+1\n#### 1,002"}]))
    assert load_benchmark("gsm8k")[0].gold == "1002"
    monkeypatch.setattr("datasets.load_dataset", FakeHub([{"problem": "?", "solution": r"so \boxed{5}", "type": "x"}]))
    assert [(p.gold, p.id) for p in load_benchmark("math")] == [("5", "math/0")]
    rows = [{"question": "?", "choices": ["a", "b"], "answer": 1, "hint": "h", "image": None}]
    monkeypatch.setattr("datasets.load_dataset", FakeHub([*rows, {**rows[0], "image": "picture"}]))
    assert [problem.gold for problem in load_benchmark("scienceqa")] == ["B"]


def test_a_hub_without_the_column_or_out_of_reach_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.load_dataset", FakeHub([{"text": "?"}]))
    with pytest.raises(UserError, match=r"no column answer, problem, unique_id; its columns: text"):
        load_benchmark("math500")

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("offline")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    with pytest.raises(UserError, match=r"could not read HuggingFaceH4/MATH-500 .*offline.*data_dir"):
        load_benchmark("math500")
    with pytest.raises(UserError, match="not on the hub; set data_dir"):
        list(hub.hub_rows(BENCHMARKS["college_math"]))


def test_the_table_in_the_docs_is_the_registry() -> None:
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `") and line.count("|") == 7
    ]
    assert [row[0].strip("`") for row in rows] == list(BENCHMARKS)
    for row, entry in zip(rows, BENCHMARKS.values(), strict=True):
        assert int(row[1].replace(",", "")) == entry.num_problems and row[2].split("`")[1] == entry.rule
        assert (row[3].strip("`") == entry.file) or entry.file is None
        assert entry.hub is None or row[4].startswith(entry.hub.path)
        assert row[5] == entry.licence or entry.parts
    assert all(f"| `{rule}` |" in text for rule in RULES)
