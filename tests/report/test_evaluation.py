from __future__ import annotations

import json

import pytest

from sif_trainer.report.evaluation import comparison_page, evaluation_page, markdown_table, percent, show_evaluation


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


def scores(value):
    middle = estimate(value, value - 0.1, value + 0.1)
    return {
        "avg": middle,
        "pass_at": {"1": middle, "8": estimate(value + 0.2, value, value + 0.3)},
        "maj": middle,
        "avg_boxed": middle,
    }


@pytest.fixture
def results():
    def benchmark(value):
        return {
            "version": 1, "rule": "math", "num_problems": 50, "num_left_out": 2, "num_samples": 8,
            "scores": scores(value),
            "truncated_rate": 0.25, "unparsable_rate": 0.125, "mean_length": 321.4, "prompts_sha": "abc",
        }  # fmt: skip

    return {
        "schema_version": 1,
        "model": "my/model",
        "identity": "transformers:my/model",
        "decoding": {"num_samples": 8, "temperature": 0.6, "stop": [], "system_prompt": None},
        "seed": 123,
        "benchmarks": {"math500": benchmark(0.412), "gsm8k": benchmark(0.5)},
        "average": scores(0.456),
        "circumstances": {"versions": {"torch": "2.13.0"}, "git": "abcdef", "at": "2026-01-01T00:00:00+00:00"},
    }


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_a_row_per_benchmark_and_the_average(results):
    lines = [line for line in evaluation_page(results).splitlines() if line.startswith("|")]
    header, rows = cells(lines[0]), [dict(zip(cells(lines[0]), cells(line), strict=True)) for line in lines[2:]]
    assert header[:6] == ["benchmark", "problems", "avg@8", "pass@1", "pass@8", "maj@8"]
    assert [row["benchmark"] for row in rows] == ["math500", "gsm8k", "average"]
    assert rows[0]["avg@8"] == "41.2 [31.2, 51.2]"
    assert rows[0]["pass@8"] == "61.2 [41.2, 71.2]"
    assert (rows[0]["truncated"], rows[0]["unparsable"], rows[0]["tokens"], rows[0]["left out"]) == (
        "25.0%",
        "12.5%",
        "321",
        "2",
    )
    assert len({len(line) for line in lines}) == 1, "aligned for a terminal"


def test_the_page_says_how_the_numbers_came_about(results):
    page = evaluation_page(results)
    assert page.startswith("# my/model\n")
    for fact in ("num_samples 8", "temperature 0.6", "seed 123", "torch 2.13.0", "commit abcdef"):
        assert fact in page
    assert "system_prompt" not in page


def test_one_benchmark_has_no_average(results):
    results |= {"benchmarks": {"gsm8k": results["benchmarks"]["gsm8k"]}, "average": None}
    assert "average" not in evaluation_page(results)


def test_show_writes_the_page_and_a_plot(results, tmp_path, capsys):
    (tmp_path / "results.json").write_text(json.dumps(results))
    show_evaluation(tmp_path)
    assert capsys.readouterr().out == (tmp_path / "results.md").read_text() == evaluation_page(results)
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")


def test_a_comparison_shows_signs_and_what_is_missing():
    pair = {
        "num_matched": 40,
        "num_unmatched": 3,
        "first": 0.4,
        "second": 0.45,
        "difference": estimate(0.05, -0.01, 0.11),
    }
    page = comparison_page(
        {
            "first": "before",
            "second": "after",
            "benchmarks": {"gsm8k": pair},
            "overall": None,
            "unmatched_benchmarks": ["amc23"],
            "note": "on purpose",
        }
    )
    row = cells(next(line for line in page.splitlines() if line.startswith("| gsm8k")))
    assert row == ["gsm8k", "40", "40.0", "45.0", "+5.0 [-1.0, +11.0]", "3"]
    assert "amc23" in page and "Note: on purpose" in page and "A: before" in page


def test_percent_and_table():
    assert percent(estimate(0.0, 0.0, 0.288)) == "0.0 [0.0, 28.8]"
    assert markdown_table(["a", "long"], [["bcd", "1"]]) == ["| a   | long |", "| --- | ---- |", "| bcd | 1    |"]
