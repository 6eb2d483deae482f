from __future__ import annotations

import json
import math

import pytest
import torch

from sif_trainer.policy import PromptTooLong
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import Records
from sif_trainer.systems.jointcore.compare import compare, family_differences, pool, read_runs
from sif_trainer.systems.jointcore.interview import ask_all
from sif_trainer.systems.jointcore.model import ModelRecipe, format_summary, make_judge, run_model
from sif_trainer.systems.jointcore.prompts import Question, TerminalQuestion
from sif_trainer.systems.jointcore.replies import PolicyReplies, likeliest
from sif_trainer.systems.jointcore.robustness import VARIANTS, examine, fallback, run_robustness, summarise
from sif_trainer.systems.jointcore.simulated import Simulated
from sif_trainer.systems.jointcore.tasks import robustness_tasks

RECIPE = ModelRecipe(model="simulated:50", every=40)


def start(folder, recipe=RECIPE, command="jointcore model"):
    return RunFolder.open(folder, command=command, config=vars(recipe))


def test_labels_are_chosen_as_by_the_published_scorer(vectors):
    known = vectors("scoring.json")
    num_cases = 0
    for case in known["cases"]:
        expected = case.get("expected")
        if expected is None or "logits" not in case:
            continue
        sums, lengths = [], []
        for choice, logits in zip(case["choices"], case["logits"], strict=True):
            ids = case["choice_token_ids"][choice]
            first = len(case["prompt_ids"]) - 1
            log_p = torch.tensor(logits, dtype=torch.float32).log_softmax(-1)[range(first, first + len(ids)), ids]
            sums.append(log_p.sum().item())
            lengths.append(len(ids))
        for total, length, score in zip(sums, lengths, expected["choice_scores"], strict=True):
            assert total / length == pytest.approx(score["mean_log_probability"], abs=known["tolerance"])
        assert likeliest(sums, lengths, case["choices"]) == expected["completion"], case["case"]
        num_cases += 1
    assert num_cases > 15


def test_a_score_that_is_no_number_is_an_invalid_reply():
    assert likeliest([math.nan, -1.0], [1, 1], ["YES", "NO"]) is None
    assert likeliest([-1.0, -1.0], [1, 1], ["YES", "NO"]) == "YES"
    assert likeliest([-3.0, -2.0], [3, 1], ["EXECUTE", "HOLD"]) == "EXECUTE"


class ShortPolicy(ScriptedPolicy):
    """Refuses prompts of more than `limit` characters, like an engine whose context is full."""

    limit = 1000

    def _score(self, prompts, labels):
        long = [i for i, prompt in enumerate(prompts) if len(self.render(prompt)) > self.limit]
        if long:
            raise PromptTooLong(long, self.limit)
        return super()._score(prompts, labels)


def test_questions_go_out_by_labels_and_prompts_that_do_not_fit_are_invalid(model):
    policy = ShortPolicy(scores=lambda text, label: {"NO": -1.0, "HALT": -1.0}.get(label, -5.0))
    task = model[0]
    questions = [
        Question(task, task.full),
        TerminalQuestion(task, "HOLD"),
        Question(task, 0, "deletion"),
        TerminalQuestion(task, "EXECUTE"),
    ]
    assert PolicyReplies(policy)(questions) == [None, "HALT", "NO", "HALT"]
    policy.limit = 0
    assert PolicyReplies(policy)(questions) == [None] * 4


def test_what_the_machine_does_is_never_a_reply(model):
    class Failing(ScriptedPolicy):
        def _score(self, prompts, labels):
            raise UserError("out of memory with batch_size=32")

    with pytest.raises(UserError, match="out of memory"):
        PolicyReplies(Failing())([Question(model[0], 0)])


@pytest.mark.parametrize("run_stage", [run_model, run_robustness])
def test_a_run_that_fails_goes_on_where_it_was(tmp_path, run_stage):
    perfect, num_batches, asked = Simulated("simulated:50", flip=50), 0, []
    recipe = ModelRecipe(model="simulated:50", every=12, in_flight=3)

    def failing(questions):
        nonlocal num_batches
        num_batches += 1
        if num_batches == 40:
            raise UserError("the server is down")
        asked.extend(questions)
        return perfect(questions)

    with pytest.raises(UserError, match="server is down"):
        run_stage(start(tmp_path / "run", recipe), recipe, lambda: failing)
    done = {record["index"] for record in Records(tmp_path / "run" / "records.jsonl")}
    assert done and not (tmp_path / "run" / "summary.json").exists()
    asked.clear()
    resumed = run_stage(start(tmp_path / "run", recipe), recipe, lambda: failing)
    assert not done & {question.task.index for question in asked}
    assert resumed == run_stage(start(tmp_path / "straight", recipe), recipe, lambda: perfect)
    asked.clear()
    assert run_stage(start(tmp_path / "run", recipe), recipe, lambda: failing) == resumed and not asked


def test_a_scripted_policy_runs_the_stage_and_its_replies_are_kept(tmp_path):
    script = {"scores": {"decision was": {"COMMIT": -1, "HALT": -0.5}, "UNKNOWN\nm": {"YES": -2, "NO": -1}}}
    script["scores"][""] = {"YES": -0.5, "NO": -1}
    (tmp_path / "script.json").write_text(json.dumps(script))
    recipe = ModelRecipe(model=f"scripted:{tmp_path / 'script.json'}", every=100, methods=("galloping", "full_memory"))
    run = start(tmp_path / "run", recipe)
    summary = run_model(run, recipe, lambda: make_judge(recipe, run))
    assert summary["num_tasks"] == 5 and list(summary["methods"]) == ["galloping", "full_memory"]
    assert "galloping" in format_summary(summary)
    judge = make_judge(recipe, run)
    (run.path / "records.jsonl").unlink()
    (run.path / "summary.json").unlink()
    assert run_model(run, recipe, lambda: judge) == summary
    assert judge.policy.counters.num_calls == 0


def test_one_run_never_mixes_two_models(tmp_path):
    recipe = ModelRecipe(model=f"scripted:{tmp_path / 'script.json'}")
    run = start(tmp_path / "run", recipe)
    (tmp_path / "script.json").write_text('{"scores": {"": {"YES": 0}}}')
    make_judge(recipe, run)
    make_judge(recipe, run)
    (tmp_path / "script.json").write_text('{"scores": {"": {"YES": 1}}}')
    with pytest.raises(UserError, match="this run began with the model"):
        make_judge(recipe, run)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("simulated:often", {}, "names no rate"),
        ("scripted:{script}", {"dtype": "bfloat16"}, "does not take an option"),
    ],
)
def test_a_model_that_cannot_be_made_is_named(tmp_path, model, options, message):
    (tmp_path / "script.json").write_text("{}")
    recipe = ModelRecipe(model=model.format(script=tmp_path / "script.json"), engine_options=options)
    with pytest.raises(UserError, match=message):
        make_judge(recipe, start(tmp_path / "run", recipe))


def test_simulated_robustness_equals_the_published_evaluator(vectors):
    names = {"unknown": "typed_mask", "pending": "plausible_same_type"}
    for sim in vectors("sim_aggregate.json")["sims"]:
        invalid = sim.get("raise", 0) + sim.get("garbage", 0)
        judge = Simulated(sim["name"], sim.get("flip", 0), invalid, sim.get("lenient", False))
        summary = summarise(list(ask_all((examine(task, 64) for task in robustness_tasks()), judge, 16)))
        assert summary["num_tasks"] == 108
        for method, rates in vectors("sim_robustness.json")[sim["name"]].items():
            for variant in VARIANTS:
                found = summary["published_success"][method][variant]
                assert found == pytest.approx(rates[names.get(variant, variant)], abs=1e-12)


def rates(direct, ab):
    pairs = {"direct": direct, "ab": ab}
    methods = ("jointcore_cost_ordered", "conditional_singleton_cost")
    return {method: {labels: pairs[labels][i] for labels in pairs} for i, method in enumerate(methods)}


@pytest.mark.parametrize(
    ("direct", "ab", "ours", "published"),
    [
        ((0.8, 0.7), (0.9, 0.6), False, False),
        ((0.8, 0.7), (0.5, 0.6), True, True),
        ((0.7, 0.7), (0.5, 0.6), False, True),  # a tie is no disagreement for us
        ((0.7, 0.7), (0.6, 0.6), False, False),
    ],
)
def test_the_fallback_by_both_readings(direct, ab, ours, published):
    assert fallback(rates(direct, ab), ties_count=False) is ours
    assert fallback(rates(direct, ab), ties_count=True) is published


def test_compare_reads_finished_runs(tmp_path):
    for name, flip in (("good", 20), ("bad", 200)):
        recipe = ModelRecipe(model=f"simulated:{flip}", every=4)
        run_model(start(tmp_path / name, recipe), recipe, lambda flip=flip: Simulated("any", flip=flip))
    runs = read_runs([str(tmp_path / "good"), str(tmp_path / "bad")])
    tests = compare(runs)
    assert [(test.policy, test.metric) for test in tests][:3] == [
        ("good", "behaviour"),
        ("good", "savings"),
        ("good", "queries"),
    ]
    assert all(test.difference.mean < -3 for test in tests if test.metric == "queries")
    found = family_differences(runs["good"], "queries")
    assert len(found) == 9 and all(interval.low <= interval.mean <= interval.high for interval in found.values())
    assert pool(runs)["full_memory"]["savings_rate"] == 0


def test_compare_says_what_it_cannot_read(tmp_path):
    with pytest.raises(UserError, match="at least one finished run"):
        read_runs([])
    with pytest.raises(UserError, match="holds no finished run"):
        read_runs([str(tmp_path)])
    recipe = ModelRecipe(model="simulated:0", every=100, methods=("galloping",))
    run_model(start(tmp_path / "a", recipe), recipe, lambda: Simulated("any"))
    with pytest.raises(UserError, match="run without jointcore_cost_ordered"):
        read_runs([str(tmp_path / "a")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"every": 0}, "every is 0"), ({"in_flight": 0}, "in_flight is 0"), ({"methods": ("galop",)}, "galloping")],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ModelRecipe(model="simulated:0", **settings)
