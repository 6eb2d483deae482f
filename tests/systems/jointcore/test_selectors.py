from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.systems.jointcore.exact import evaluate, table
from sif_trainer.systems.jointcore.memory import Memory, ids_of, mask_of
from sif_trainer.systems.jointcore.published import cost_order
from sif_trainer.systems.jointcore.search import drive, prune_groups
from sif_trainer.systems.jointcore.selectors import SELECTORS
from sif_trainer.systems.jointcore.stronger import certificate_bound
from sif_trainer.systems.jointcore.tasks import exact_tasks

SEARCHES = ["conditional_singleton_cost", "jointcore_legacy", "jointcore_cost_ordered", "top_b_first", "galloping"]


def trace(search, judge):
    """Drive a search and note each question's dropped group, in search order, with the answer."""
    asked = []

    def answer(candidate):
        unchanged = judge(candidate)
        asked.append((candidate, unchanged))
        return unchanged

    return drive(search, answer), asked


@pytest.mark.parametrize("method", ["jointcore_legacy", "jointcore_cost_ordered"])
def test_group_searches_ask_in_the_published_order(method, exact, vectors):
    for known in vectors("exact_traces.jsonl"):
        task = exact[known["index"]]
        order = task.by_score if method == "jointcore_legacy" else cost_order(task)
        assert order == known[method]["order"]
        _, asked = trace(SELECTORS[method](task, 256), task.sufficient)
        kept, groups = task.full, []
        for candidate, unchanged in asked:
            group = kept & ~candidate
            groups.append([[i for i in order if group >> i & 1], int(unchanged)])
            kept = candidate if unchanged else kept
        assert groups == known[method]["groups"]


def test_singleton_search_visits_in_the_published_order(exact, vectors):
    for known in vectors("exact_traces.jsonl"):
        assert exact[known["index"]].by_cost == known["conditional_singleton_cost"]["order"]


@st.composite
def monotone_decisions(draw):
    """A memory and minimal sets of a monotone decision that the full memory satisfies."""
    n = draw(st.integers(1, 12))
    costs = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    scores = draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    minimal = draw(st.lists(st.integers(0, 2**n - 1), min_size=1, max_size=4))
    return Memory("m", tuple(costs), tuple(scores)), minimal


@given(monotone_decisions(), st.sampled_from(SEARCHES))
def test_searches_return_a_one_minimal_sufficient_set(decision, method):
    memory, minimal = decision

    def sufficient(kept):
        return any(kept & m == m for m in minimal)

    found, asked = trace(SELECTORS[method](memory, 10_000), sufficient)
    assert not found.exhausted and found.evaluations == len(asked)
    assert sufficient(found.kept)
    assert not any(sufficient(found.kept ^ 1 << i) for i in ids_of(found.kept))
    assert found.evaluations >= certificate_bound(found.kept, memory.n)


@given(monotone_decisions(), st.sampled_from(SEARCHES), st.integers(0, 12))
def test_a_budget_is_never_exceeded_and_what_is_kept_stays_sufficient(decision, method, budget):
    memory, minimal = decision

    def sufficient(kept):
        return any(kept & m == m for m in minimal)

    found = drive(SELECTORS[method](memory, budget), sufficient)
    assert found.evaluations <= budget
    assert sufficient(found.kept)
    unlimited = drive(SELECTORS[method](memory, 10_000), sufficient)
    assert found.exhausted == (unlimited.evaluations > budget)
    assert found == unlimited or found.exhausted


@given(monotone_decisions())
@settings(max_examples=50)
def test_leave_one_out_keeps_what_is_needed_everywhere(decision):
    memory, minimal = decision
    found = drive(
        SELECTORS["independent_leave_one_out"](memory, memory.n), lambda kept: any(kept & m == m for m in minimal)
    )
    common = memory.full
    for m in minimal:
        common &= m
    assert found.kept == common


def test_stronger_selectors_recover_every_minimum_with_fewer_questions():
    tasks = exact_tasks()
    methods = ["jointcore_cost_ordered", "top_b_first", "galloping"]
    rows = table(evaluate(tasks, {name: SELECTORS[name] for name in methods}))
    assert all(row.minimum_rate == 1 for scope in rows.values() for row in scope.values())
    overall = [rows["overall"][name].evaluations for name in methods]
    assert [round(mean, 2) for mean in overall] == [11.13, 6.44, 4.64]
    grown = [rows[f"n={n}"]["galloping"].evaluations for n in (8, 16, 32, 64)]
    assert max(abs(a - b) for a, b in pairwise(grown)) < 0.2


def test_the_bound_on_certified_answers(exact):
    mean = sum(certificate_bound(task.minimum[0], task.n) for task in exact) / len(exact)
    assert round(mean, 2) == 3.22


def test_an_empty_order_asks_nothing():
    assert drive(prune_groups(0b11, [], 5), lambda kept: True).evaluations == 0


def test_oracle_needs_a_task():
    with pytest.raises(TypeError, match="needs a benchmark Task"):
        drive(SELECTORS["exact_oracle"](Memory("m", (1,), (1.0,)), 1), lambda kept: True)


@given(st.sets(st.integers(0, 300)))
def test_masks_and_ids_are_inverse(ids):
    assert ids_of(mask_of(ids)) == sorted(ids)
