"""A whole evaluation in this process, with scripted answers: records, results, refusals."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from sif_trainer.evaluation.estimate import mean_over_problems
from sif_trainer.evaluation.processes import Processes
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.results import load_results
from sif_trainer.evaluation.run import evaluate
from sif_trainer.evaluation.sample import load_exams, show_prompts
from sif_trainer.evaluation.store import SampleStore, read_samples
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder

PROBLEMS = {  # benchmark: (file, rows)
    "gsm8k": ("gsm8k_test.jsonl", [("a", "apples", "3"), ("b", "bricks", "12")]),
    "aime2025": ("aime2025.jsonl", [("c", "circles", "70")]),
    "aime2026": ("aime2026.jsonl", [("d", "digits", "81")]),
    "jeebench": ("jeebench.jsonl", [("j", "electrons", "ABD")]),
}
REPLIES = {
    "apples": [r"so \boxed{3}", "The answer is 3.", "I have no idea", r"\boxed{4}"],
    "bricks": [r"\boxed{12}", r"\boxed{13}", r"\boxed{13}", "nothing"],
    "circles": [r"\boxed{70}"],
    "digits": [r"\boxed{80}"],
    "electrons": [r"\boxed{AB}", r"\boxed{ABD}", r"\boxed{AC}", "nothing at all"],
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for file, rows in PROBLEMS.values():
        lines = [{"id": i, "problem": text, "answer": gold, "type": "MCQ(multiple)"} for i, text, gold in rows]
        (folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def make(tmp_path: Path, data_dir: Path):
    """`make(name, **settings)` evaluates the script on gsm8k and returns (results, folder)."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": REPLIES}))

    def run(name="run", **settings):
        values = {
            "model": f"scripted:{script}",
            "suite": "gsm8k",
            "data_dir": str(data_dir),
            "num_samples": 4,
        } | settings
        recipe = EvalRecipe(**values)
        folder = RunFolder.open(tmp_path / name, "eval", recipe.settings, seed=recipe.seed)
        return evaluate(recipe, folder, Processes()), tmp_path / name

    return run


def test_the_numbers_of_a_small_benchmark_by_hand(make):
    results, _ = make(k=[1, 2, 4])
    found = results.benchmarks["gsm8k"]
    # apples: 2 of 4 right, both of them "3"; bricks: 1 of 4 right, "13" twice.
    assert found.scores.avg == mean_over_problems([2 / 4, 1 / 4], 4)
    assert found.scores.pass_at["2"].value == pytest.approx(((1 - 1 / 6) + (1 - 3 / 6)) / 2)
    assert found.scores.pass_at["1"].value == found.scores.avg.value
    assert found.scores.pass_at["4"].value == 1.0
    assert found.scores.maj.value == 0.5
    assert found.scores.avg_boxed.value == pytest.approx((1 / 4 + 1 / 4) / 2)
    assert found.unparsable_rate == 2 / 8
    assert found.truncated_rate == 0
    assert (found.num_problems, found.num_samples, found.num_left_out) == (2, 4, 0)
    assert results.average is None


def test_partial_credit_counts_for_avg_but_not_for_pass(make):
    found = make(suite="jeebench", k=[1])[0].benchmarks["jeebench"].scores
    assert found.avg.value == pytest.approx((0.5 + 1 + 0 + 0) / 4)
    assert found.pass_at["1"].value == 1 / 4
    assert found.maj.value == pytest.approx((0.5 + 1 + 0) / 3)  # three answers with a vote each


def test_every_benchmark_counts_once(make):
    results, _ = make(suite=["gsm8k", "aime"])  # `aime` is the contests of two years
    parts = {name: result.scores.avg.value for name, result in results.benchmarks.items()}
    assert parts == {"gsm8k": 0.375, "aime": 0.5}
    assert results.average.avg.value == pytest.approx((0.375 + 0.5) / 2)
    assert results.average.avg.high < max(result.scores.avg.high for result in results.benchmarks.values())


def test_one_record_per_sample_says_everything(make):
    _, folder = make()
    records = {(record["id"], record["sample"]): record for record in read_samples(folder)}
    assert len(records) == len((folder / "samples.jsonl").read_text().splitlines()) == 8
    record = records["a", 1]
    assert (record["benchmark"], record["score"], record["verdict"], record["answer"]) == (
        "gsm8k",
        1.0,
        "correct",
        "3",
    )
    assert (record["text"], record["num_tokens"], record["finish_reason"]) == ("The answer is 3.", 4, "stop")
    assert not record["boxed"]
    prompts = {line["id"]: line for line in map(json.loads, (folder / "prompts.jsonl").read_text().splitlines())}
    assert prompts["a"]["prompt_sha"] == record["prompt_sha"]
    assert prompts["a"]["prompt"].startswith("apples") and prompts["a"]["gold"] == "3"


def test_results_are_read_back_as_they_were(make):
    results, folder = make(suite=["gsm8k", "aime2025"])
    assert load_results(folder) == results
    values = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(values | {"schema_version": 0}))
    with pytest.raises(UserError, match="schema version 0"):
        load_results(folder)


def test_the_first_prompt_is_shown(make, capsys):
    make(system_prompt="Be brief.")
    assert "first prompt (gsm8k, a):\nBe brief.\n\napples" in capsys.readouterr().err


def test_a_missing_chat_template_is_stated(tokenizer, model, tmp_path, data_dir, capsys):
    for template, stated in ((tokenizer.chat_template, False), (None, True)):
        plain = copy.deepcopy(tokenizer)
        plain.chat_template = template
        recipe = EvalRecipe(model="live", suite="gsm8k", data_dir=str(data_dir))
        run = RunFolder.open(tmp_path / f"run-{stated}", "eval", recipe.settings)
        show_prompts(TransformersPolicy(model, plain), load_exams(recipe), recipe, run)
        assert ("no chat template: prompts are sent as plain text" in capsys.readouterr().err) == stated


def test_only_what_is_missing_is_drawn(make, monkeypatch):
    _, folder = make()
    lines = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "samples.jsonl").write_text("".join(lines[:2] + lines[5:]) + '{"benchmark": "gsm8k", "id": "b", "sam')
    asked = []
    monkeypatch.setattr(
        ScriptedPolicy,
        "_answer",
        lambda self, request: asked.append((request.prompt[-1]["content"][:6], request.number)) or "7",
    )
    make()
    assert len(asked) == 3
    repaired = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    assert repaired[:5] == lines[:2] + lines[5:]
    assert {(r["id"], r["sample"]) for r in read_samples(folder)} == {(i, j) for i in "ab" for j in range(4)}
    make()
    assert len(asked) == 3


def test_a_failing_engine_keeps_what_was_finished(make, tmp_path, monkeypatch):
    answer = ScriptedPolicy._answer

    def fail(self, request):
        if "bricks" in request.text and request.number == 2:
            raise UserError("the server is down")
        return answer(self, request)

    monkeypatch.setattr(ScriptedPolicy, "_answer", fail)
    with pytest.raises(UserError, match="server is down"):
        make()
    assert len(list(read_samples(tmp_path / "run"))) == 6
    assert not (tmp_path / "run" / "results.json").exists()


def test_an_error_of_the_grader_is_not_swallowed(make, monkeypatch):
    monkeypatch.setattr("sif_trainer.evaluation.sample.last_box", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make()


def test_a_model_that_has_changed_is_refused(make, tmp_path):
    _, folder = make()
    (folder / "results.json").unlink()
    lines = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "samples.jsonl").write_text("".join(lines[:-1]))
    (tmp_path / "script.json").write_text(json.dumps({"replies": {"": "3"}}))
    with pytest.raises(UserError, match="not the one that this run began with"):
        make()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": [16]}, "k=16 of pass@k cannot be estimated from num_samples=4"),
        ({"k": [0]}, "k=0"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"limit": 0}, "limit=0"),
        ({"temperature": 0.0}, "temperature=0 gives the same answer"),
        ({"top_p": 0.0}, "top_p"),
        ({"suite": "gsm9k"}, "did you mean 'gsm8k'"),
        ({"suite": []}, "suite is empty"),
        ({"suite": "math500"}, "math500.jsonl"),
        ({"engine_options": {"warp": 9}}, "does not take an option.*warp"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_what_cannot_work_is_refused(make, settings, message):
    with pytest.raises(UserError, match=message):
        make(**settings)


def test_records_of_other_processes_are_merged_without_repeats(tmp_path):
    def sample(index):
        return {"benchmark": "x", "id": "1", "sample": index}

    first, second = SampleStore(tmp_path), SampleStore(tmp_path, rank=1)
    first.add(sample(0))
    second.add(sample(1))
    second.add(sample(2))
    second.leave_out("x", "2", "too long")
    first.add(sample(1))  # as after a merge that was killed on its way
    first.merge()
    assert [record["sample"] for record in read_samples(tmp_path)] == [0, 1, 2]
    assert first.done == {("x", "1", index) for index in range(3)}
    assert first.left_out == {("x", "2")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["left_out.jsonl", "samples.jsonl"]
