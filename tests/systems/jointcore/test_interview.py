from __future__ import annotations

import pytest

from sif_trainer.systems.jointcore.compare import pool
from sif_trainer.systems.jointcore.interview import ask_all, interview
from sif_trainer.systems.jointcore.memory import ids_of
from sif_trainer.systems.jointcore.model import MEANS, summarise
from sif_trainer.systems.jointcore.prompts import Question
from sif_trainer.systems.jointcore.search import drive
from sif_trainer.systems.jointcore.selectors import PUBLISHED, SELECTORS
from sif_trainer.systems.jointcore.simulated import Simulated
from sif_trainer.systems.jointcore.statistics import paired_tests

METHODS = {name: SELECTORS[name] for name in PUBLISHED}
RECORDED = {  # ours: recorded
    "queries": "queries",
    "behaviour": "behavior",
    "sufficient": "exact",
    "minimum": "minimum",
    "final_action": "final_action",
    "published_final_correct": "final_correct",
    "terminal": "terminal",
    "published_success": "trajectory_success",
    "num_invalid": "decision_errors",
    "reply_accuracy": "selection_decision_accuracy",
    "exhausted": "exhausted",
}
PUBLISHED_MEANS = {
    "behaviour_rate": "behavioral_sufficiency",
    "sufficiency_rate": "exact_sufficiency",
    "minimum_rate": "valid_minimum_set",
    "savings_rate": "active_token_savings",
    "queries": "intervention_count",
    "recall_rate": "critical_recall",
    "cost_gap": "cost_gap",
    "published_success_rate": "trajectory_success",
    "num_invalid": "decision_errors",
}


def simulated(parameters):
    invalid = parameters.get("raise", 0) + parameters.get("garbage", 0)
    return Simulated(parameters["name"], parameters.get("flip", 0), invalid, parameters.get("lenient", False))


def judged(tasks, judge, in_flight=16, methods=METHODS):
    records = ask_all((interview(task, methods, 64) for task in tasks), judge, in_flight)
    return sorted(records, key=lambda record: record["index"])


@pytest.fixture(scope="module")
def simulations(vectors, model):
    """{name: the records of a simulated judge on all 432 tasks}."""
    return {sim["name"]: judged(model, simulated(sim)) for sim in vectors("sim_aggregate.json")["sims"]}


def test_simulated_judges_give_the_recorded_runs(simulations, vectors):
    num_compared = 0
    for known in vectors("sim_model_runs.jsonl"):
        record = simulations[known["sim"]][known["index"]]
        assert record["task"] == known["paper_task_id"]
        assert record["control_action"] == known["control_action"]
        assert record["control_correct"] == known["control_correct"]
        assert record["num_replies"] == known["cache_entries"]
        for method, expected in known["methods"].items():
            row = record["methods"][method]
            assert row["retained"] == (list(range(16)) if expected["retained"] == "ALL" else expected["retained"])
            for ours, recorded in RECORDED.items():
                assert row[ours] == expected[recorded], (known["sim"], known["index"], method, ours)
            num_compared += 1
    assert num_compared == 2 * 432 * 8


def test_simulated_judges_give_the_recorded_means(simulations, vectors):
    known = vectors("sim_aggregate.json")
    found = {name: summarise(records) for name, records in simulations.items()}
    pairs = [(found[name]["methods"], actor["methods"]) for name, actor in known["actors"].items()]
    for ours, expected in [*pairs, (pool(simulations), known["family_weighted_pool"])]:
        for method, row in expected.items():
            for name, published in PUBLISHED_MEANS.items():
                if name in ours[method] and published in row:
                    assert ours[method][name] == pytest.approx(row[published], abs=1e-12)
    for name, actor in known["actors"].items():
        assert found[name]["control_rate"] == pytest.approx(actor["full_memory_control_accuracy"])
    assert set(PUBLISHED_MEANS) - {"num_invalid"} <= set(MEANS)


def test_simulated_judges_give_the_recorded_statistics(simulations, vectors):
    names = {"behaviour": "behavioral_sufficiency", "savings": "active_token_savings", "queries": "intervention_count"}
    known = vectors("sim_aggregate.json")["statistical_tests"]

    def values(method):
        return {
            name: {metric: [record["methods"][method][metric] for record in simulations[name]] for metric in names}
            for name in known
        }

    tests = paired_tests(values("jointcore_cost_ordered"), values("conditional_singleton_cost"))
    assert len(tests) == 12
    for test in tests:
        expected = known[test.policy][names[test.metric]]
        interval = expected["cluster_bootstrap"]
        assert test.difference == pytest.approx((interval["estimate"], *interval["ci95"]), abs=1e-12)
        assert test.p_value == pytest.approx(expected["paired_test"]["p_value"], rel=1e-12)
        assert test.adjusted_p_value == pytest.approx(expected["holm_adjusted_p_value"], rel=1e-12)


def test_a_perfect_judge_reaches_the_published_ceiling(model, vectors):
    summary = summarise(judged(model, Simulated("perfect")))
    names = {"sufficiency_rate": "exact_sufficiency", "minimum_rate": "valid_minimum_set"}
    names |= {"savings_rate": "active_token_savings", "queries": "evaluations"}
    for method, row in vectors("model_grid_oracle_judge.json")["methods"].items():
        for ours, published in names.items():
            assert summary["methods"][method][ours] == pytest.approx(row[published], abs=1e-12)
    assert summary["control_rate"] == 1


def test_the_result_does_not_depend_on_how_many_are_in_flight(model):
    judge = Simulated("any", flip=100, invalid=30)
    assert judged(model[::20], judge, in_flight=1) == judged(model[::20], judge, in_flight=100)


def test_each_question_is_asked_once_and_batched(model):
    batches = []

    def judge(questions):
        batches.append(list(questions))
        return Simulated("perfect")(questions)

    records = judged(model[:30], judge, in_flight=10)
    asked = [question for batch in batches for question in batch]
    assert len(asked) == len(set(asked))
    assert sum(isinstance(question, Question) for question in asked) == sum(r["num_replies"] for r in records)
    assert len(batches) < len(asked) / 10


def test_a_search_by_replies_equals_the_search_by_the_oracle(model):
    for task, record in zip(model[::37], judged(model[::37], Simulated("perfect")), strict=True):
        for name, row in record["methods"].items():
            found = drive(SELECTORS[name](task, 64), task.sufficient)
            assert (row["retained"], row["queries"]) == (ids_of(found.kept), found.evaluations)


def test_an_invalid_reference_makes_every_deletion_fail(model):
    def judge(questions):
        full = [isinstance(q, Question) and q.kept == q.task.full for q in questions]
        replies = Simulated("perfect")(questions)
        return [None if invalid else reply for invalid, reply in zip(full, replies, strict=True)]

    row = judged(model[:1], judge)[0]["methods"]
    assert row["conditional_singleton_cost"]["retained"] == list(range(16))
    assert not any(method["behaviour"] for method in row.values())
    assert row["full_memory"]["final_action"] == "INVALID" and not row["full_memory"]["success"]


def test_success_is_against_the_task_and_the_published_one_against_the_kept_set(model):
    """A judge that always says NO is wrong on the full memory, drops everything, and is right about nothing kept."""

    def judge(questions):
        return ["NO" if isinstance(q, Question) else ("HALT", "COMMIT")[q.decision == "EXECUTE"] for q in questions]

    summary = summarise(judged(model, judge))
    row = summary["methods"]["jointcore_cost_ordered"]
    assert summary["control_rate"] == 0
    assert (row["success_rate"], row["published_success_rate"], row["sufficiency_rate"]) == (0, 1, 0)
