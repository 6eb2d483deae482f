from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.systems.balar.belief import (
    answer_posterior,
    as_probabilities,
    can_expand,
    certain_rate,
    entropy,
    expand,
    factorised,
    likeliest,
    marginals,
    num_within,
    product,
    state_likelihood,
    target_entropy,
    update,
)
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.selection import Bank, best, wants_expansion

WEIGHTS = {"likely": 0.8, "neutral": 0.5, "unlikely": 0.2}


def close(value, tolerance=1e-6):
    return pytest.approx(value, abs=tolerance)


def table(labels):
    return torch.tensor([as_probabilities(row, WEIGHTS) for row in labels], dtype=torch.float64)


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "fixtures" / "balar" / "golden" / "bayes_golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def joint(golden):
    return factorised([as_probabilities(row["labels"], WEIGHTS) for row in golden["priors"]])


@pytest.fixture(scope="module")
def tables(golden):
    return {name: list(map(table, question["dim_labels"])) for name, question in golden["questions"].items()}


@pytest.fixture(scope="module")
def posterior(golden, joint, tables):
    """The belief after the golden file's first update, of which its later parts are."""
    known = golden["update"]
    return update(joint, state_likelihood(tables[known["question"]]), known["omega"])


def test_golden_labels_and_priors(golden, joint):
    assert golden["phi"] == WEIGHTS
    for row in golden["priors"]:
        assert as_probabilities(row["labels"], WEIGHTS) == close(row["prob"])
    assert list(joint.shape) == golden["joint"]["shape"]
    assert joint.exp().flatten().tolist() == close(golden["joint"]["flat"])
    assert entropy(joint) == close(golden["joint"]["entropy_nats"])
    assert joint.exp().max().item() == close(golden["joint"]["max_prob"])
    assert list(likeliest(joint)) == golden["joint"]["map"]


def test_golden_state_likelihoods(golden, tables):
    bank = Bank([2, 3], list(tables.values()))
    for number, (name, question) in enumerate(golden["questions"].items()):
        expected = torch.tensor(question["state_likelihood"], dtype=torch.float64)
        assert torch.allclose(state_likelihood(tables[name]).flatten(1).T.exp(), expected, atol=1e-6, rtol=0)
        num_choices = expected.shape[1]
        assert torch.allclose(bank.likelihood[number, :num_choices].T, expected, atol=1e-6, rtol=0)
        assert bank.likelihood[number, num_choices:].sum() == 0


def test_golden_information_and_choice(golden, joint, tables):
    bank = Bank([2, 3], list(tables.values()))
    assert bank.information(joint).tolist() == close(list(golden["mi_nats"].values()))
    choice = best(bank, joint, [True] * 3, [1] * 3, BalarConfig(), 25)
    assert list(tables)[choice.place] == golden["best"]
    assert choice.information == choice.most_information == close(golden["mi_nats"][golden["best"]])


def test_golden_updates(golden, joint, tables):
    known = golden["update"]
    likelihood = state_likelihood(tables[known["question"]])
    omega = as_probabilities(known["answer_labels"], WEIGHTS)
    assert omega == close(known["omega"])
    posterior = update(joint, likelihood, omega)
    assert posterior.exp().flatten().tolist() == close(known["posterior"])
    assert entropy(posterior) == close(known["entropy"])
    for row, expected in zip(marginals(posterior), known["posterior_marginals"], strict=True):
        assert row == close(expected)
    assert update(joint, likelihood, [1, 0, 0]).exp().flatten().tolist() == close(known["hard_choice0"])
    assert torch.allclose(update(joint, likelihood, [1 / 3] * 3), joint, atol=1e-12)
    second = golden["two_updates_q1_then_q3"]
    both = update(posterior, state_likelihood(tables["q3"]), second["omega_q3"])
    assert both.exp().flatten().tolist() == close(second["posterior"])


def test_golden_target_entropy_and_expand_rule(golden, joint):
    for row in golden["target_entropy"]:
        assert target_entropy(row["alpha"], row["S"]) == close(row["value"])
    information = max(golden["mi_nats"].values())
    for row in golden["expand_rule"]:
        gap = max(0.0, entropy(joint) - target_entropy(row["alpha"], joint.numel()))
        left = row["max_rounds"] - row["round"]
        assert gap == close(row["gap"])
        assert row["expand_multiplier"] * information * left == close(row["threshold"])
        assert wants_expansion(gap, information, left, row["expand_multiplier"]) == row["expand"]


def test_golden_expansion_and_caps(golden, posterior):
    known = golden["expansion"]
    prior = as_probabilities(known["new_labels"], WEIGHTS)
    wider = expand(posterior, prior)
    assert prior == close(known["new_marginal"])
    assert list(wider.shape) == known["shape"]
    assert wider.exp().flatten().tolist() == close(known["flat"])
    assert entropy(wider) == close(known["entropy"])
    assert entropy(wider) == close(entropy(posterior) + entropy(torch.tensor(prior).log()))
    for row in golden["state_cap"]:
        assert can_expand(row["num_states"], row["max_values"], row["cap"]) == row["can_expand"]


def test_golden_answers_and_stop_rule(golden, posterior):
    known = golden["answers"]
    options = list(map(table, known["dim_labels"]))
    assert answer_posterior(posterior, options).tolist() == close(known["prob"])
    per_state = torch.einsum("aij,ij->a", product(options).softmax(0), posterior.exp())
    assert per_state.tolist() == close(known["prob_if_renormalised_per_state"])
    for row in golden["stop_no_answer_set"]:
        assert (certain_rate(row["marginals"], row["alpha"]) >= row["beta"]) == row["stop"]


@pytest.mark.parametrize(
    ("sizes", "kept"), [([4] * 7, 7), ([4] * 8, 7), ([4] * 20, 7), ([50_000], 0), ([49_999, 2], 1), ([12_500, 4], 1)]
)
def test_the_cap_holds_for_the_first_proposal(sizes, kept):
    assert num_within(sizes, 50_000) == kept


# Properties, against plain loops over states.


@st.composite
def worlds(draw, num_pairs=3):
    """A log joint that is not factorised, and each pair's tables."""
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    joint = logits - torch.logsumexp(logits.flatten(), 0)
    tables = []
    for _ in range(num_pairs):
        num_choices = draw(st.integers(2, 4))
        noise = [torch.randn(n, num_choices, generator=generator, dtype=torch.float64) for n in shape]
        tables.append([row.softmax(1) for row in noise])
    return joint, tables, generator


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_information_and_updates_equal_the_plain_loop(plain_loop, world):
    """There, information is the expected drop of entropy, from a posterior for each answer."""
    joint, tables, generator = world
    belief = joint.exp().flatten().tolist()
    pairs = [plain_loop.likelihoods(joint.shape, [table.tolist() for table in own]) for own in tables]
    bank = Bank(joint.shape, tables)
    place, information = plain_loop.best(belief, pairs)
    assert bank.information(joint).tolist() == close(information, 1e-12)
    assert best(bank, joint, [True] * len(tables), [1.0] * len(tables), BalarConfig(), 25).place == place
    for own, rows in zip(tables, pairs, strict=True):
        omega = torch.rand(len(rows[0]), generator=generator, dtype=torch.float64).tolist()
        for weights in (omega, [1.0] + [0.0] * (len(omega) - 1)):
            found = update(joint, state_likelihood(own), weights).exp().flatten().tolist()
            assert found == close(plain_loop.update(belief, rows, weights), 1e-12)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_uniform_evidence_changes_nothing_and_updates_commute(world):
    joint, tables, generator = world
    evidence = []
    for own in tables:
        size = own[0].shape[1]
        likelihood = state_likelihood(own)
        assert torch.allclose(update(joint, likelihood, [1 / size] * size), joint, atol=1e-12)
        evidence.append((likelihood, torch.rand(size, generator=generator, dtype=torch.float64).tolist()))
    there = back = joint
    for likelihood, omega in evidence:
        there = update(there, likelihood, omega)
    for likelihood, omega in reversed(evidence):
        back = update(back, likelihood, omega)
    assert torch.allclose(there, back, atol=1e-10)
    assert there.exp().sum().item() == close(1, 1e-12)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_expansion_keeps_marginals_and_later_evidence_may_be_silent_about_it(world):
    joint, tables, _ = world
    wider = expand(joint, [0.7, 0.2, 0.1])
    for old, new in zip(marginals(joint), marginals(wider), strict=False):
        assert new == close(old, 1e-12)
    assert marginals(wider)[-1] == close([0.7, 0.2, 0.1], 1e-12)
    likelihood = state_likelihood(tables[0])
    omega = [0.9] + [0.1 / (len(likelihood) - 1)] * (len(likelihood) - 1)
    first = expand(update(joint, likelihood, omega), [0.7, 0.2, 0.1])
    assert torch.allclose(update(wider, likelihood, omega), first, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(worlds(num_pairs=4), st.sampled_from([0.0, 1.0]))
def test_two_steps_ahead_equals_the_plain_loop(world, power):
    joint, tables, _ = world
    bank, costs, is_open = Bank(joint.shape, tables), [1.0, 2.0, 0.5, 1.5], [True, True, False, True]
    config = BalarConfig(lookahead=2, cost_power=power)
    value = {}
    for pair in (0, 1, 3):
        size = tables[pair][0].shape[1]
        likelihood = state_likelihood(tables[pair])
        value[pair] = bank.information(joint)[pair].item() / costs[pair] ** power
        for y in range(size):
            after = update(joint, likelihood, [float(y == z) for z in range(size)])
            predicted = (likelihood[y] + joint).exp().sum().item()
            then = bank.information(after).tolist()
            value[pair] += predicted * max(then[other] / costs[other] ** power for other in {0, 1, 3} - {pair})
    found = best(bank, joint, is_open, costs, config, asks_left=2).place
    assert value[found] == close(max(value.values()), 1e-12)


def test_the_choice_is_the_first_of_equals_among_open_pairs_and_minds_costs():
    joint = factorised([[0.5, 0.5]])
    sharp = [torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)]
    blunt = [torch.tensor([[0.6, 0.4], [0.4, 0.6]], dtype=torch.float64)]
    bank = Bank([2], [blunt, sharp, sharp])

    def chosen(is_open, costs=(1, 1, 1), **settings):
        choice = best(bank, joint, is_open, costs, BalarConfig(**settings), 25)
        return None if choice is None else choice.place

    assert chosen([True] * 3) == 1
    assert chosen([True, False, True]) == 2
    assert chosen([False] * 3) is None
    assert chosen([True] * 3, costs=(1, 1000, 1000)) == 1
    assert chosen([True] * 3, costs=(1, 1000, 1000), cost_power=1) == 0
    choice = best(bank, joint, [True] * 3, (1, 1000, 1000), BalarConfig(cost_power=1), 25)
    assert choice.information < choice.most_information
    assert best(bank, joint, [True, False, False], (1, 1, 1), BalarConfig(lookahead=2), 25).place == 0
