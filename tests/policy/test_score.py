from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.policy import PromptTooLong, shared_prefixes
from sif_trainer.policy.scoring import score_labels
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.runs.errors import UserError


def full_logits_score(model, prompt_ids, label_ids):
    """One unpadded forward over prompt and label, log-softmax of everything in float64."""
    with torch.no_grad():
        logits = model(torch.tensor([list(prompt_ids) + list(label_ids)])).logits[0]
    log_p = logits.double().log_softmax(-1)
    return sum(log_p[len(prompt_ids) - 1 + number, token].item() for number, token in enumerate(label_ids))


@pytest.mark.parametrize(
    "labels", [["yes", "no"], ["the", "maybe not", "12 + 30 = 42", "?"]], ids=["one token", "several"]
)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_score_equals_full_logits(labels, side, batch_size, model, tokenizer, prompts):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.padding_side = side
    policy = TransformersPolicy(model, tokenizer, batch_size=batch_size)
    label_ids = policy.label_tokens(labels)
    assert ({len(ids) for ids in label_ids} == {1}) == (labels == ["yes", "no"])
    scores = policy.score(prompts, labels)
    for prompt, row in zip(prompts, scores, strict=True):
        ids = policy.encoder.encode(prompt)
        expected = [full_logits_score(model, ids, label) for label in label_ids]
        assert row == pytest.approx(expected, abs=1e-4)
    assert policy.counters.num_calls == len(prompts)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_score_labels_on_random_ids(data, model):
    ids = st.lists(st.integers(0, model.config.vocab_size - 1), min_size=1, max_size=7)
    prompts = data.draw(st.lists(ids, min_size=1, max_size=4))
    labels = data.draw(st.lists(ids, min_size=1, max_size=4))
    scores = score_labels(model, prompts, labels)
    expected = [[full_logits_score(model, prompt, label) for label in labels] for prompt in prompts]
    torch.testing.assert_close(scores.double(), torch.tensor(expected, dtype=torch.float64), atol=1e-4, rtol=1e-5)


def test_a_label_is_read_at_the_positions_that_predict_it(shared):
    """Recorded logits of another scorer: one position early or late would show."""
    recorded = json.loads((shared / "fixtures/jointcore/scoring.json").read_text())
    num_labels = 0
    for case in recorded["cases"]:
        if "logits" not in case:
            continue
        for number, choice in enumerate(case["expected"]["choice_scores"]):
            score = score_labels(TableModel(case["logits"][number]), [case["prompt_ids"]], [choice["token_ids"]])
            assert score.item() == pytest.approx(choice["total_log_probability"], abs=recorded["tolerance"])
            num_labels += 1
    assert num_labels > 40


class TableModel:
    """Gives the logits of a table by position, whatever it reads."""

    device = torch.device("cpu")

    def __init__(self, table):
        self.table = torch.tensor(table)

    def forward(self, cache=None):
        """Only its signature is read."""

    def __call__(self, input_ids, position_ids, logits_to_keep, **_):
        return SimpleNamespace(logits=self.table[position_ids][:, -logits_to_keep:])


def test_one_forward_for_labels_of_one_token(model, tokenizer, prompts):
    lengths = []
    handle = model.register_forward_pre_hook(
        lambda _, args, kwargs: lengths.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        policy = TransformersPolicy(model, tokenizer)
        longest = max(len(policy.encoder.encode(prompt)) for prompt in prompts)
        policy.score(prompts, ["yes", "no", "the"])
        assert lengths == [(5, longest)]
        lengths.clear()
        policy.score(prompts, ["yes", "12 + 30 = 42", "maybe not"])
        two_longer = max(map(len, policy.label_tokens(["12 + 30 = 42", "maybe not"])))
        assert lengths == [(5, longest), (10, two_longer - 1)], "the prompt is read once, short labels not again"
    finally:
        handle.remove()


def test_labels_that_cannot_be_scored_are_refused(policy):
    with pytest.raises(UserError, match="no labels"):
        policy.score(["x"], [])
    with pytest.raises(UserError, match="'' has no token"):
        policy.score(["x"], ["yes", ""])
    with pytest.raises(UserError, match="same tokens"):
        policy.score(["x"], ["yes", "no", "yes"])


def test_shared_prefixes_are_found(policy):
    assert shared_prefixes(policy.label_tokens(["yes", "no", "maybe"])) == []
    assert shared_prefixes([(1, 2), (3,), (1, 3), (1,)]) == [(0, 2), (0, 3), (2, 3)]


def test_prompt_and_label_must_fit(model, tokenizer):
    policy = TransformersPolicy(model, tokenizer, max_input_tokens=8)
    policy.encoder.encode = lambda prompt: [7] * len(prompt)
    policy.encoder.label_tokens = lambda labels: [(3, 4), (5,)]
    assert len(policy.score(["x" * 6], ["a", "b"])[0]) == 2
    with pytest.raises(PromptTooLong, match="limit of 6") as caught:
        policy.score(["x", "x" * 7], ["a", "b"])
    assert caught.value.indices == (1,)


def test_no_prompts_no_scores(policy):
    assert policy.score([], ["yes", "no"]) == []
    assert policy.generate([]) == []
