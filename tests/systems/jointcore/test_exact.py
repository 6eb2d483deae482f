from __future__ import annotations

import json

import pytest

from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import Records
from sif_trainer.systems.jointcore.exact import ExactConfig, evaluate, format_table, lines, run_exact, table
from sif_trainer.systems.jointcore.memory import ids_of
from sif_trainer.systems.jointcore.selectors import PUBLISHED, SELECTORS
from sif_trainer.systems.jointcore.tasks import exact_tasks

METRICS = {  # ours: published
    "sufficiency_rate": "exact_sufficiency",
    "minimum_rate": "valid_minimum_set",
    "savings_rate": "active_token_savings",
    "evaluations": "intervention_count",
    "recall_rate": "critical_recall",
    "cost_gap": "cost_gap",
    "exhausted_rate": "budget_exhaustion_rate",
    "num_tasks": "records",
}


@pytest.fixture(scope="module")
def scored(exact):
    return list(evaluate(exact, {name: SELECTORS[name] for name in PUBLISHED}))


def test_each_method_on_the_published_tasks(scored, vectors):
    for known in vectors("exact_tasks.jsonl"):
        task, scores = scored[known["index"]]
        for method, expected in known["methods"].items():
            s = scores[method]
            everything = list(range(task.n))
            assert ids_of(s.kept) == (everything if expected["retained"] == "ALL" else expected["retained"])
            assert (s.cost, s.evaluations, s.sufficient) == (
                expected["cost"],
                expected["evals"],
                expected["sufficient"],
            )
            assert s.minimum == expected["minimum"] and s.exhausted == expected["budget_exhausted"]
            assert (s.savings, s.recall) == (expected["savings"], expected["critical_recall"])
            assert s.cost_gap == expected["cost_gap"]


def test_every_mean_of_every_scope(scored, vectors):
    ours, known = table(scored), vectors("expected_exact_metrics.json")["metrics"]
    scopes = {"overall": known["overall"], **known["by_family"]}
    scopes |= {f"n={n}": rows for n, rows in known["by_candidate_count"].items()}
    assert set(ours) == set(scopes)
    for scope, rows in scopes.items():
        for method, row in rows.items():
            for name, published in METRICS.items():
                assert getattr(ours[scope][method], name) == pytest.approx(row[published], abs=1e-12)


def test_table_one_to_every_printed_digit(scored, vectors):
    overall = table(scored)["overall"]
    for method, printed in vectors("paper_aggregates.json")["exact_stage"]["methods"].items():
        row = overall[method]
        rates = [round(rate, 4) for rate in (row.sufficiency_rate, row.minimum_rate, row.savings_rate)]
        assert [*rates, round(row.evaluations, 2)] == printed


def test_evaluations_grow_by_two_as_the_memory_doubles(scored):
    rows = table(scored)
    sizes = [round(rows[f"n={n}"]["jointcore_cost_ordered"].evaluations, 3) for n in (8, 16, 32, 64)]
    assert sizes == [8.113, 10.118, 12.131, 14.145]


def test_the_worked_example(scored):
    task, scores = scored[672]
    found = scores["jointcore_cost_ordered"]
    assert (task.index, ids_of(found.kept), found.evaluations) == (672, [10], 9)


def test_the_set_based_version_writes_the_same_records(set_based):
    scored = evaluate(exact_tasks((8,)), {m: SELECTORS[m] for m in PUBLISHED})
    theirs = [json.dumps(row) for row, _ in set_based.run(set_based.exact_tasks((8,)))]
    assert [line for one in scored for line in lines(one)] == theirs


def test_a_run_writes_one_record_per_task_and_method(tmp_path):
    config = ExactConfig(sizes=(8,), methods=("semantic_top_b", "galloping"))
    run = RunFolder.open(tmp_path / "run", command="jointcore exact", config=vars(config))
    summary = run_exact(run, config)
    rows = list(Records(tmp_path / "run" / "records.jsonl"))
    assert len(rows) == 2 * 1728
    assert list(rows[0]) == ["index", "method", "retained", "cost", "evaluations", "sufficient", "minimum"]
    assert rows[-1]["index"] == 1727
    assert summary["overall"]["galloping"]["minimum_rate"] == 1
    assert "galloping" in format_table(summary["overall"])
    assert run_exact(run, config) == summary


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": (4,)}, "at least 8"),
        ({"sizes": ()}, "at least 8"),
        ({"budget": 0}, "budget must be at least 1"),
        ({"methods": ("galoping",)}, "did you mean 'galloping'"),
        ({"methods": ()}, "methods is empty"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ExactConfig(**settings)
