from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch

from sif_trainer.evaluation.online import online_measure
from sif_trainer.policy import Sampling
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.grade import grade
from sif_trainer.tasks.load import load_benchmark


@pytest.fixture
def problems(data_dir):
    return [problem for problem in load_benchmark("gsm8k", data_dir) if len(problem.prompt) < 200]


def test_it_equals_generating_and_grading_by_hand(model, tokenizer, problems):
    found = online_measure(tokenizer, problems, max_tokens=12, num_samples=4, temperature=1.0, seed=3)(model)
    policy = TransformersPolicy(model, tokenizer)
    prompts = [problem.messages for problem in problems]

    def scores(samples):
        return [
            [grade(sample.text, problem.gold, "gsm8k").score for sample in row]
            for row, problem in zip(samples, problems, strict=True)
        ]

    drawn = policy.generate(prompts, 4, Sampling(1.0, max_tokens=12, seed=3))
    assert found["accuracy"] == pytest.approx(np.mean(scores(drawn)))
    assert 0 < found["accuracy"] < 1
    assert found["accuracy_low"] < found["accuracy"] < found["accuracy_high"]
    greedy = policy.generate(prompts, 1, Sampling(0, max_tokens=12))
    assert found["greedy"] == pytest.approx(np.mean(scores(greedy)))
    flat = [sample for row in drawn for sample in row]
    assert found["length"] == pytest.approx(np.mean([sample.num_tokens for sample in flat]))
    assert found["truncated_rate"] == pytest.approx(np.mean([sample.finish_reason == "length" for sample in flat]))


def test_greedy_alone_is_the_accuracy(model, tokenizer, problems):
    found = online_measure(tokenizer, problems, max_tokens=12)(model)
    assert found["accuracy"] == found["greedy"]
    assert found["accuracy_low"] <= found["accuracy"] <= found["accuracy_high"]


def test_a_prompt_of_any_form_is_measured(model, tokenizer, problems):
    chats = [(problem.id, problem.messages, problem.gold, "gsm8k") for problem in problems]
    texts = [(problem.id, problem.prompt + " a ", problem.gold, "gsm8k") for problem in problems]
    results = [online_measure(tokenizer, form, max_tokens=12)(model) for form in (problems, chats, texts)]
    assert results[0] == results[1] == results[2]  # the chat template adds " a "
    quiet = online_measure(tokenizer, problems, max_tokens=12, chat_template_kwargs={"quiet": True})(model)
    longer = [(problem.id, problem.prompt + " a q ", problem.gold, "gsm8k") for problem in problems]
    assert quiet == online_measure(tokenizer, longer, max_tokens=12)(model)


def test_measuring_leaves_training_as_it_was(model, tokenizer, problems):
    model = copy.deepcopy(model).train()

    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    before, weights = states(), copy.deepcopy(model.state_dict())
    measure = online_measure(tokenizer, problems, max_tokens=8, num_samples=2)
    first = measure(model)
    assert states() == before
    assert model.training
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    torch.manual_seed(99)
    assert measure(model) == first  # the same for the same weights, whatever was drawn in between


def test_no_problems(tokenizer):
    with pytest.raises(UserError, match="no problems"):
        online_measure(tokenizer, [], max_tokens=8)


def test_a_prompt_beyond_the_context_is_named(model, tokenizer):
    with pytest.raises(UserError, match="do not fit"):
        online_measure(tokenizer, [("1", "x" * 300, "1", "gsm8k")], max_tokens=8)(model)
