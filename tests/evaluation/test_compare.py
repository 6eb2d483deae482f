from __future__ import annotations

import json

import pytest

from sif_trainer.evaluation.compare import compare
from sif_trainer.evaluation.estimate import macro_average, paired_difference
from sif_trainer.evaluation.processes import Processes
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.run import evaluate
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder


@pytest.fixture
def make(tmp_path):
    """`make(name, replies, rows=..., **settings)`: scripted replies on gsm8k (or amc23), two samples each."""

    def run(name, replies, rows=("p", "q", "r"), suite="gsm8k", **settings):
        data = tmp_path / f"{name}-data"
        data.mkdir()
        for file, gold in (("gsm8k_test.jsonl", "3"), ("amc23.jsonl", "5")):
            lines = [{"id": row[0], "problem": f"{row}?", "answer": gold} for row in rows]
            (data / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
        script = tmp_path / f"{name}.json"
        script.write_text(json.dumps({"replies": replies}))
        recipe = EvalRecipe(model=f"scripted:{script}", suite=suite, data_dir=str(data), num_samples=2, **settings)
        folder = tmp_path / name
        evaluate(recipe, RunFolder.open(folder, "eval", recipe.settings, seed=1), Processes())
        return folder

    return run


def test_the_difference_is_paired_by_problem(make):
    first = make("a", {"p?": ["3", "4"], "q?": ["3", "3"], "r?": ["4", "4"]})
    second = make("b", {"p?": ["3", "3"], "q?": ["3", "4"], "r?": ["4", "3"]})
    found = compare(first, second)
    pair = found.benchmarks["gsm8k"]
    assert pair.difference == paired_difference([0.5, 1, 0], [1, 0.5, 0.5])
    assert (pair.first, pair.second) == pytest.approx((0.5, 2 / 3))
    assert (pair.num_matched, pair.num_unmatched, found.overall, found.unmatched_benchmarks) == (3, 0, None, [])
    back = compare(second, first).benchmarks["gsm8k"].difference
    assert (back.value, back.low, back.high) == pytest.approx(
        (-pair.difference.value, -pair.difference.high, -pair.difference.low)
    )


def test_overall_counts_every_benchmark_once(make):
    first = make("a", {"": [r"\boxed{3}", r"\boxed{5}"]}, suite=["gsm8k", "amc23"])
    second = make("b", {"": [r"\boxed{3}", r"\boxed{3}"]}, suite=["gsm8k", "amc23"])
    found = compare(first, second)
    assert {name: pair.difference.value for name, pair in found.benchmarks.items()} == {"gsm8k": 0.5, "amc23": -0.5}
    assert found.overall == macro_average([pair.difference for pair in found.benchmarks.values()])


def test_what_has_no_partner_is_counted(make):
    first = make("a", {"": ["3", "3"]}, rows=("p", "q", "r2"), suite=["gsm8k", "amc23"])
    second = make("b", {"": ["3", "3"]}, rows=("q", "r", "s"))
    found = compare(first, second)
    assert found.benchmarks["gsm8k"].num_matched == 1  # q alone: p and s are missing, r has another text
    assert found.benchmarks["gsm8k"].num_unmatched == 4
    assert found.unmatched_benchmarks == ["amc23"]
    with pytest.raises(UserError, match="no problem in common"):
        compare(first, make("c", {"": ["3", "3"]}, rows=("x",)))


def test_different_decoding_needs_a_note(make):
    first = make("a", {"": ["3", "3"]})
    second = make("b", {"": ["3", "3"]}, temperature=1.0)
    with pytest.raises(UserError, match=r"temperature is 0\.6 and 1\.0.*--note"):
        compare(first, second)
    assert compare(first, second, note="both as published").note == "both as published"


def test_seeds_may_differ(make):
    compare(make("a", {"": ["3", "3"]}), make("b", {"": ["3", "3"]}, seed=7))


def test_a_run_that_has_not_ended_is_refused(make, tmp_path):
    first = make("a", {"": ["3", "3"]})
    with pytest.raises(UserError, match="holds no finished evaluation"):
        compare(first, tmp_path / "nowhere")
