from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest

from sif_trainer.systems.jointcore.memory import ids_of, mask_of
from sif_trainer.systems.jointcore.oracle import cheapest, exhaustive_minimum, minimal_sets
from sif_trainer.systems.jointcore.search import drive
from sif_trainer.systems.jointcore.selectors import PUBLISHED, SELECTORS
from sif_trainer.systems.jointcore.tasks import EXACT_BUDGET, MODEL_BUDGET, robustness_tasks


def digest(values):
    lines = (value if isinstance(value, str) else json.dumps(value, separators=(",", ":")) for value in values)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


@pytest.mark.parametrize("stage", ["exact", "model"])
def test_ids_and_records_have_the_published_digests(stage, vectors, request):
    tasks, known = request.getfixturevalue(stage), vectors("digests.json")[stage]
    assert len(tasks) == known["count"]
    assert digest(task.key for task in tasks) == known["ids"]
    assert digest(task.inner_id for task in tasks) == known["task_ids"]
    assert len({task.inner_id for task in tasks}) == known["distinct_inner_task_ids"]
    assert Counter(task.action_when_sufficient for task in tasks) == known["orientation_counts"]
    rows = ([task.key, task.action_when_sufficient, task.display_order, task.records] for task in tasks)
    assert digest(rows) == known["records"]


@pytest.mark.parametrize("method", PUBLISHED)
@pytest.mark.parametrize(("stage", "budget"), [("exact", EXACT_BUDGET), ("model", MODEL_BUDGET)])
def test_selections_have_the_published_digests(stage, budget, method, vectors, request):
    def row(task):
        selection = drive(SELECTORS[method](task, budget), task.sufficient)
        return [task.key, ids_of(selection.kept), task.cost(selection.kept), selection.evaluations]

    known = vectors("digests.json")[stage][f"sel_{method}"]
    assert digest(map(row, request.getfixturevalue(stage))) == known


def test_robustness_subset_has_the_published_digest(vectors):
    tasks = list(robustness_tasks())
    assert digest(task.key for task in tasks) == vectors("digests.json")["robust_subset_108"]["ids"]
    assert Counter((t.family, t.condition.domain, t.condition.support_size) for t in tasks).most_common(1)[0][1] == 1


@pytest.mark.parametrize(("stage", "name"), [("exact", "exact_tasks.jsonl"), ("model", "model_tasks.jsonl")])
def test_every_field_of_the_published_tasks(stage, name, vectors, request):
    tasks = request.getfixturevalue(stage)
    for known in vectors(name):
        task = tasks[known["index"]]
        assert task.key == known["paper_task_id"] and task.inner_id == known["task_id"]
        assert task.seed == known["seed"]
        assert task.condition == (
            known["domain"],
            known["family"],
            known["n"],
            known["support_size"],
            known["horizon_label"],
            known["seed_block"],
        )
        assert list(task.support) == known["support"]
        assert [task.proxy] == (known["proxy"] or [None])
        assert [list(record) for record in task.records] == known["records"]
        assert (task.full_cost, task.oracle_cost) == (known["full_cost"], known["oracle_cost"])
        assert list(map(ids_of, task.minimum)) == known["min_cost_sets"]


def test_the_exhaustive_oracle_agrees_with_the_closed_form(exact, model):
    small = [task for task in exact if task.n == 8][::7] + [task for task in exact if task.n == 16][::31] + model[::11]
    assert {task.family for task in small} == {task.family for task in exact}
    for task in small:
        assert exhaustive_minimum(task.family, task.support, task.costs) == task.minimum


def test_the_exhaustive_oracle_says_why_it_refuses_a_large_memory():
    with pytest.raises(ValueError, match="at most 16 records"):
        exhaustive_minimum("synergy_and", (0, 1), [1] * 17)


def test_cheapest_breaks_ties_by_the_ids():
    assert cheapest([mask_of([2, 5]), mask_of([0, 9]), mask_of([1])], [1, 3, 2, 0, 0, 1, 0, 0, 0, 2]) == (
        mask_of([0, 9]),
        mask_of([1]),
        mask_of([2, 5]),
    )


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("redundant_or", [[1], [4], [6], [7]]),
        ("threshold", [[1, 4], [1, 6], [1, 7], [4, 6], [4, 7], [6, 7]]),
        ("multiple_minimal_sets", [[1, 4], [6, 7]]),
        ("synergy_xor", [[1, 4, 6, 7]]),
    ],
)
def test_minimal_sets_of_four(family, expected):
    assert list(map(ids_of, minimal_sets(family, (1, 4, 6, 7)))) == expected
