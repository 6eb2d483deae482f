"""Replay and baselines: the recorded expectations exactly, and the plain oracle on small pools of every kind."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.systems.adap.baselines import FixedPolicies, dap, sample_aware
from sif_trainer.systems.adap.compare import NUM_BUDGETS, ReplayConfig, compare
from sif_trainer.systems.adap.pools import Recorded, read_pool, solvable
from sif_trainer.systems.adap.replay import replay
from sif_trainer.systems.adap.rules import rounds
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.trials import Trials

POOLS = ("hmmt_semisynth", "lcb_like")
RATIOS = ("1", "10", "20", "30")


def recorded(name, samples):
    return Recorded(name, np.array([r for r, _ in samples], dtype=float), np.array([bool(v) for _, v in samples]))


scores = st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")])  # many ties, some missing
samples = st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=14).filter(lambda s: any(v for _, v in s))
pools = st.lists(samples, min_size=1, max_size=5).map(
    lambda rows: [recorded(f"p{number}", row) for number, row in enumerate(rows)]
)
prices = st.tuples(st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 10]))


@pytest.fixture(scope="module")
def replayed(adap_fixtures):
    """Replay a recorded pool once for all its tests."""
    done = {}

    def run(name):
        if name not in done:
            done[name] = compare(read_pool(adap_fixtures / f"{name}.npz"), ReplayConfig())
        return done[name]

    return run


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_recorded_trials(name, ratio, replayed, expected):
    wanted = expected(f"expected_{name}.json")["cost_ratios"][ratio]["stable_tie_reference"]["trials"]
    rows = [row for row in replayed(name)[1] if row["c_ver"] == ratio]
    columns = {
        "num_draws": "adap_drawn",
        "num_batch": "adap_verified",
        "num_sequential": "adap_sequential_verified",
        "sample_aware_num_draws": "sampleaware_N_rew",
        "sample_aware_num_verifications": "sampleaware_N_ver",
    }
    for ours, theirs in columns.items():
        assert [row[ours] for row in rows] == wanted[theirs]
    assert all(row["success"] for row in rows)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_recorded_summaries(name, ratio, replayed, expected):
    wanted = expected(f"expected_{name}.json")["cost_ratios"][ratio]["stable_tie_reference"]
    found = replayed(name)[0]["c_ver"][ratio]
    for ours, theirs in (("batch", "adap"), ("sequential", "adap_sequential")):
        row = found["adap"][ours]
        assert row["cost"]["value"] == pytest.approx(wanted[theirs]["mean_cost"], abs=1e-6)
        assert row["num_draws"] == pytest.approx(wanted[theirs]["mean_N_rew"], abs=1e-6)
        assert row["num_verifications"] == pytest.approx(wanted[theirs]["mean_N_ver"], abs=1e-6)
        assert row["success_rate"] == 1
    assert found["sample_aware"]["cost"]["value"] == pytest.approx(wanted["sampleaware"]["mean_cost"], abs=1e-6)
    uniform = wanted["uniform_at_adap_budget"]
    assert (found["uniform"]["num_draws"], found["uniform"]["num_verifications"]) == (
        uniform["N_rew"],
        uniform["N_ver"],
    )
    assert found["uniform"]["success_rate"] == pytest.approx(uniform["success"], abs=1e-6)
    for ours, theirs in zip(found["dap"], wanted["dap"], strict=True):
        assert ours["groups"] == theirs["groups"]
        assert ours["cost"]["value"] == pytest.approx(theirs["mean_cost"], abs=1e-6)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_authors_code_within_what_its_ties_allow(name, ratio, replayed, expected):
    wanted = expected(f"expected_{name}.json")["cost_ratios"][ratio]["authors_code"]
    found = replayed(name)[0]["c_ver"][ratio]
    exact = name == "hmmt_semisynth"  # no ties among its rewards
    for ours, theirs in ((found["adap"]["batch"], "adap"), (found["sample_aware"], "sampleaware")):
        within = 1e-6 if exact else 0.005
        assert ours["cost"]["value"] == pytest.approx(wanted[theirs]["mean_cost"], rel=within)
    for ours, theirs in zip(found["dap"], wanted["dap"], strict=True):
        within = 1e-6 if exact and ours["k"] <= 2 else {1: 0.01, 2: 0.04}.get(ours["k"], 0.1)
        assert ours["cost"]["value"] == pytest.approx(theirs["mean_cost"], rel=within)
    fixed = wanted["uniform_full_success"]
    assert found["cheapest_fixed"]["cost"] == pytest.approx(fixed["cost"], rel=1e-9 if exact else 0.01)
    curve = found["curve"]
    assert curve["budget"] == wanted["budget_curve"]["budget"] and len(curve["budget"]) == NUM_BUDGETS
    assert curve["success_rate"] == pytest.approx(wanted["budget_curve"]["success"], abs=1e-9 if exact else 0.005)
    if exact:
        assert curve["num_draws"] == wanted["budget_curve"]["N_rew"]
        assert curve["num_verifications"] == wanted["budget_curve"]["N_ver"]


def test_recorded_small_cases(expected):
    for case in expected("small_cases.json"):
        pool = [recorded("p", list(zip(case["rewards"], case["labels"], strict=True)))]
        trials = Trials.in_order(pool, [[np.arange(len(case["labels"]))]])
        costs = Costs.of(case["c_rew"], case["c_ver"])
        spent, wanted = replay(trials, rounds("adap", costs)), case["adap"]
        assert bool(spent.success[0]) == wanted["success"]
        assert (spent.num_draws[0], spent.num_batch[0]) == (wanted["drawn"], wanted["verified"])
        assert spent.cost("batch", costs)[0] == wanted["cost"]
        ranks, n = trials.first_correct_rank()[0], len(case["labels"])
        assert [None if rank > n else rank for rank in ranks] == case["rank_of_first_correct_by_prefix"]
        if case["sampleaware"]:
            aware = sample_aware(trials.first_correct_rank(), costs)
            assert [aware.cost[0], aware.num_draws[0], aware.num_verifications[0]] == list(
                case["sampleaware"].values()
            )


def test_one_trial_by_hand():
    # c_ver 10: 8 draws, 6 verified; then the other 4 draws, and what is left.
    labels = [0] * 12
    labels[9] = 1
    pool = [recorded("p", list(zip([5, 4, 3, 2, 1, 0, 9, 8, 7, 6.5, 1.5, 0.5], labels, strict=True)))]
    trials = Trials.in_order(pool, [[np.arange(12)]])
    spent = replay(trials, rounds("adap", Costs.of(1, 10)))
    # Second round: 4 new and 2 old wait; the correct one scores 6.5, below the 7 that is new as well.
    assert (spent.num_draws[0], spent.num_batch[0], spent.num_sequential[0]) == (12, 12, 8)
    assert trials.first_correct_rank()[0].tolist() == [13] * 9 + [4, 4, 4]
    assert sample_aware(trials.first_correct_rank(), Costs.of(1, 10)).cost[0] == 10 + 4 * 10


@settings(max_examples=60, deadline=None)
@given(pool=pools, price=prices, seed=st.integers(0, 3))
def test_the_plain_oracle_agrees(pool, price, seed, plain):
    costs = Costs.of(*price)
    trials = Trials.of(pool, num_permutations=2, seed=seed)
    oracle = plain.Plain.of(pool, *price, num_permutations=2, seed=seed)
    for rule in ("adap", "balanced"):
        spent = replay(trials, rounds(rule, costs))
        played = list(islice(rounds(rule, costs), {"adap": 30, "balanced": 160}[rule]))
        for accounting in ("batch", "sequential"):
            wanted = oracle.adap(played, accounting == "sequential")
            found = zip(
                spent.success.tolist(),
                spent.num_draws.tolist(),
                spent.num_verifications(accounting).tolist(),
                strict=True,
            )
            assert list(found) == wanted
    table = FixedPolicies.of(trials)
    aware = sample_aware(table.ranks, costs)
    assert list(zip(*(column.tolist() for column in aware), strict=True)) == oracle.sample_aware()
    for budget in (float(costs.price(1, 1)), float(costs.price(4, 2)), 1000.0):
        found = table.best_within(costs, budget)
        m, k, cost, successes = oracle.uniform(budget)
        assert found == (m, k, cost, successes / trials.num_trials)
    for num_successes in (1, trials.num_trials // 2, int(table.solved.max())):
        m, k, cost, successes = oracle.cheapest(num_successes)
        assert table.cheapest(costs, num_successes) == (m, k, cost, successes / trials.num_trials)
    most = min(4, len(pool))
    for found, (successes, cost) in zip(dap(trials, table.ranks, costs, most), oracle.dap(pool, most), strict=True):
        assert found.success_rate == successes / trials.num_trials
        assert found.cost == pytest.approx(cost)


@settings(max_examples=60, deadline=None)
@given(pool=pools, price=prices)
def test_sample_aware_is_below_every_search(pool, price):
    costs = Costs.of(*price)
    trials = Trials.of(pool, num_permutations=3)
    least = sample_aware(trials.first_correct_rank(), costs).cost
    for rule in ("adap", "balanced"):
        spent = replay(trials, rounds(rule, costs))
        assert spent.success.all()
        assert (spent.num_sequential <= spent.num_batch).all()
        assert (least <= spent.cost("sequential", costs) + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(pool=pools, price=prices, scale=st.sampled_from([0.5, 2.0, 8.0]), shift=st.integers(-3, 3))
def test_only_the_order_of_scores_matters(pool, price, scale, shift):
    moved = [Recorded(p.id, p.rewards * scale + shift, p.labels) for p in pool]
    costs = Costs.of(*price)
    one, other = (replay(Trials.of(each), rounds("adap", costs)) for each in (pool, moved))
    assert np.array_equal(one.num_sequential, other.num_sequential)


@settings(max_examples=40, deadline=None)
@given(pool=pools, price=prices)
def test_the_curve_rises_and_is_within_its_budgets(pool, price):
    costs = Costs.of(*price)
    table = FixedPolicies.of(Trials.of(pool, num_permutations=2))
    budgets = np.linspace(0, 200, 40)
    curve = table.curve(costs, budgets)
    assert all(policy.cost <= budget for policy, budget in zip(curve, budgets, strict=True))
    success = [policy.success_rate for policy in curve]
    assert success == sorted(success)
    for policy, budget in zip(curve, budgets, strict=True):
        if budget >= costs.price(1, 1):
            assert policy.success_rate == table.best_within(costs, budget).success_rate


def test_ragged_problems_solve_alone_what_they_cannot_together():
    pool = solvable([recorded("a", [(0, 0), (0, 0), (1, 1)]), recorded("b", [(1, 1)])])
    trials = Trials.of(pool, num_permutations=1)
    together, apart = dap(trials, trials.first_correct_rank(), Costs.of(1, 1), 2)
    assert apart.success_rate == 1
    assert together.success_rate < 1 or trials.first_correct_rank()[0][0] == 1
    assert [group[:2] for group in apart.groups] == [(0, 0), (1, 1)]
