"""Worlds with known tables: their truth, exact Bayes, label noise, calibration, and the study that measures them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.schema import build
from sif_trainer.systems.balar.calibration import calibration_error, fit_weights, reliability
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.environments.reference import at_random, greedy, is_greedy, play
from sif_trainer.systems.balar.environments.worlds import (
    SIZES,
    WEIGHTS,
    Size,
    WorldElicitor,
    WorldUser,
    draw_world,
    mislabelled,
    state_number,
)
from sif_trainer.systems.balar.loop import run_case
from sif_trainer.systems.balar.synthetic import VARIANTS, SyntheticRecipe, _case, format_summary, run_synthetic

TINY = Size(2, 3, 3, 2, 2, 3)


def likelihood(world, q, u, state, y):
    """A choice's probability in a state, by plain loops."""

    def product(choice):
        return math.prod(
            WEIGHTS[world.tables[q, u, j, value, choice]]
            / sum(WEIGHTS[label] for label in world.tables[q, u, j, value])
            for j, value in enumerate(state)
        )

    return product(y) / sum(product(choice) for choice in range(TINY.num_choices))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_a_world_against_plain_loops(seed):
    world = draw_world(TINY, seed)
    assert draw_world(TINY, seed).state == world.state
    states = list(itertools.product(range(TINY.num_values), repeat=TINY.num_dimensions))
    for number, state in enumerate(states):
        assert state_number(state, TINY.num_values) == number
        prior = math.prod(
            WEIGHTS[world.priors[j, value]] / sum(WEIGHTS[label] for label in world.priors[j])
            for j, value in enumerate(state)
        )
        assert world.prior[number] == pytest.approx(prior)
        logs = [
            sum(math.log(WEIGHTS[world.answers[j, value, a]]) for j, value in enumerate(state))
            for a in range(TINY.num_options)
        ]
        assert logs[world.answer_of[number]] == pytest.approx(max(logs))
        for q, u, y in itertools.product(range(3), range(2), range(2)):
            assert world.likelihoods[q, u, number, y] == pytest.approx(likelihood(world, q, u, state, y))
    assert world.answer == world.case.options[world.answer_of[state_number(world.state, TINY.num_values)]]


def test_replies_follow_the_likelihoods():
    """Of 4,000 worlds' first replies, as many are the first choice as the true probabilities sum to."""
    expected, happened, variance = 0.0, 0, 0.0
    for seed in range(4000):
        world = draw_world(TINY, seed)
        p = world.likelihoods[0, 0, state_number(world.state, TINY.num_values), 0]
        question = world.questions[0]
        expected, variance = expected + p, variance + p * (1 - p)
        happened += world.reply(world.case.users[0], question) == question.choices[0]
    assert abs(happened - expected) < 4 * math.sqrt(variance)


def test_greedy_picks_the_largest_expected_drop_of_entropy():
    world = draw_world(TINY, 5)

    def entropy(p):
        return -sum(x * math.log(x) for x in p if x > 0)

    belief = world.prior
    values = greedy(world.likelihoods, belief)
    for q, u in itertools.product(range(3), range(2)):
        drop = entropy(belief)
        for y in range(2):
            joint = belief * world.likelihoods[q, u, :, y]
            drop -= joint.sum() * entropy(joint / joint.sum())
        assert values[q, u] == pytest.approx(drop)


@pytest.mark.parametrize("size", ["small", "medium"])
def test_balar_with_exact_tables_is_the_greedy_player(size):
    recipe = SyntheticRecipe(sizes=(size,), variants=("balar",))
    records = [_case(SIZES[size], seed, recipe, {}) for seed in range(25)]
    assert all(record["greedy"] for record in records)
    assert all(record["right"]["balar"] == record["right"]["greedy"] for record in records)


def test_a_player_that_is_not_greedy_is_found_out():
    world = draw_world(TINY, 5)
    player = play(world, greedy, max_asks=6)
    states = [min(tied) for tied in player.states]
    assert is_greedy(world, player.pairs, states)
    assert not is_greedy(world, player.pairs[::-1], states)
    assert not is_greedy(world, player.pairs, [*states[:-1], (states[-1] + 1) % TINY.num_states])


def test_random_asks_every_pair_once():
    world = draw_world(TINY, 1)
    player = play(world, at_random(0), max_asks=25)
    assert sorted(player.pairs) == sorted(itertools.product(range(3), range(2)))
    assert len(player.answers) == len(player.states) == 7
    assert play(world, at_random(0), max_asks=2).pairs == player.pairs[:2]


def test_noise_replaces_that_share_of_labels():
    world = draw_world(SIZES["large"], 0)
    assert (mislabelled(world, 0.0).tables == world.tables).all()
    assert (mislabelled(world, 1.0).tables != world.tables).all()
    changed = mislabelled(world, 0.2)
    assert np.mean(changed.tables != world.tables) == pytest.approx(0.2, abs=0.03)
    assert set(np.unique(changed.tables)) <= {0, 1, 2} and changed.state == world.state


def test_expansion_finds_the_hidden_dimensions_and_questions():
    world = draw_world(SIZES["small"], 3)
    config = BalarConfig(
        alpha=1e-12, kappa=0.0, num_dimensions=1, num_questions=2, num_new_questions=5, max_values=3, max_asks=50
    )
    trajectory = run_case(world.case, WorldElicitor(world, config), WorldUser(world), config)
    assert trajectory.last.dimensions == world.dimensions
    assert trajectory.last.num_expansions == 2 and trajectory.last.num_asks == 12
    assert trajectory.ended_by == "exhausted"


def test_the_fit_finds_the_weights_that_drew_the_answers():
    counts, chosen = [], []
    generator = np.random.default_rng(0)
    for _ in range(5000):
        labels = generator.integers(0, 3, (4, 3))  # dimensions, choices
        weights = np.prod(np.asarray(WEIGHTS)[labels], axis=0)
        chosen.append(int(generator.choice(3, p=weights / weights.sum())))
        counts.append([[int((labels[:, y] == label).sum()) for label in range(3)] for y in range(3)])
    likely, neutral, unlikely = fit_weights(np.array(counts, dtype=float), chosen)
    assert likely / neutral == pytest.approx(WEIGHTS[0] / WEIGHTS[1], rel=0.2)
    assert unlikely / neutral == pytest.approx(WEIGHTS[2] / WEIGHTS[1], rel=0.2)


def test_short_questions_take_no_part_in_the_fit():
    counts = np.full((40, 3, 3), np.nan)
    counts[:, :2] = [[1, 0, 0], [0, 0, 1]]
    likely, _, unlikely = fit_weights(counts, [0] * 30 + [1] * 10)
    assert likely / unlikely == pytest.approx(3, rel=1e-3)


def test_reliability_bins():
    bins = reliability([0.05, 0.05, 0.95, 1.0], [False, True, True, True], num_bins=10)
    assert [tuple(b) for b in bins] == [
        (pytest.approx(0.05), 0.5, 2),
        (pytest.approx(0.975), 1.0, 2),
    ]
    assert calibration_error(bins) == pytest.approx((2 * 0.45 + 2 * 0.025) / 4)


def test_a_study_goes_on_where_it_was(tmp_path):
    recipe = SyntheticRecipe(sizes=("small",), num_cases=4, variants=("balar", "balar, noise 0.4, fitted weights"))
    whole = run_synthetic(RunFolder.open(tmp_path / "a", "balar synthetic", {}), recipe)
    second = RunFolder.open(tmp_path / "b", "balar synthetic", {})
    for record in list(RunFolder.open(tmp_path / "a", "balar synthetic", {}).records("cases"))[:2]:
        second.records("cases").append(record)
    assert run_synthetic(second, recipe) == whole
    assert len(list(second.records("cases"))) == 4
    found = whole["small"]
    assert found["num_cases"] == 4 and found["greedy_rate"] == 1
    assert set(found["accuracy"]) == {"greedy", "random", *recipe.variants}
    assert all(len(curve) == 13 for curve in found["accuracy"].values())
    assert "greedy" in format_summary(whole)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sizes": ("smal",)}, "no 'smal'; did you mean 'small'"),
        ({"variants": ("greedy",)}, "variants: no 'greedy'"),
        ({"num_cases": 0}, "must be 1 or more"),
        ({"sizes": ()}, "sizes is empty"),
    ],
)
def test_bad_settings(values, message):
    with pytest.raises(UserError, match=message):
        build(SyntheticRecipe, values)


def test_variants_that_are_fitted_have_noise_that_is_fitted():
    assert any(variant.weights is None for variant in VARIANTS.values())
