"""The scorers: what they read, the vote beside the training rule's, and models against plain loops."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    PreTrainedTokenizerFast,
)

from sif_trainer.feedback.sif import SIFRule, decide
from sif_trainer.policy import Sample, Sampling, Windows
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.make import make
from sif_trainer.systems.adap.parts import Candidate, Problem
from sif_trainer.systems.adap.reward_models import AGGREGATES, ProcessRewardModel, RewardModel, split_steps
from sif_trainer.systems.adap.scorers import (
    SCORERS,
    Certainty,
    FunctionScorer,
    LogProbability,
    Majority,
    ProfileVote,
)

PROBLEM = Problem("p", [{"role": "user", "content": "2 + 3 = ?"}])
TEMPLATE = "{% for message in messages %}<u>{{ message['content'] }}<e>{% endfor %}"


def sampled(index: int, **values: Any) -> Candidate:
    return Candidate("text", index, Sample("text", 1, "stop", **values))


def texts(*found: str) -> list[Candidate]:
    return [Candidate(text, index) for index, text in enumerate(found)]


@pytest.mark.parametrize(
    ("scorer", "field"), [(Certainty(), "mean_certainty"), (LogProbability(), "mean_log_probability")]
)
def test_what_the_policy_measured_is_the_score(scorer: Any, field: str) -> None:
    candidates = [sampled(0, **{field: 2.5}), sampled(1), sampled(2, **{field: -1.0}), sampled(3, **{field: math.nan})]
    assert scorer.score(PROBLEM, [*candidates, Candidate("bare", 4)]) == [2.5, None, -1.0, None, None]
    assert scorer.score(PROBLEM, []) == []
    assert not scorer.relative
    with pytest.raises(UserError, match=f"no candidate of problem 'p' has a {field}; .*certainty=true"):
        scorer.score(PROBLEM, [sampled(0), Candidate("bare", 1)])


def test_majority_counts_equal_answers() -> None:
    answers = ["1/2", "5", None, r"\frac{1}{2}", "0.5"]
    candidates = [Candidate("text", index, answer=answer) for index, answer in enumerate(answers)]
    assert Majority().score(PROBLEM, candidates) == [3, 1, None, 3, 3]
    assert Majority().score(PROBLEM, []) == []
    assert Majority().relative
    with pytest.raises(UserError, match="did you mean 'math'"):
        Majority("maths")


@settings(max_examples=60)
@given(
    st.lists(st.none() | st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_the_vote_counts_as_training_does(profiles: list[list[int] | None], window_wins: int) -> None:
    votes = [None if profile is None else tuple(map(float, profile)) for profile in profiles]
    candidates = [sampled(i, mean_certainty=1.0, profile=profile) for i, profile in enumerate(votes)]
    scores = ProfileVote(window_wins).score(PROBLEM, candidates)
    eligible = torch.tensor([[profile is not None for profile in profiles]])
    values = torch.tensor([[[math.nan] * 4 if p is None else p for p in profiles]], dtype=torch.float64)
    rule = SIFRule(num_windows=4, window_size=1, min_stride=0, window_wins=window_wins)
    peer_wins = decide(values, eligible, rule).peer_wins[0].tolist()
    assert [None if score is None else int(score) for score in scores] == [
        wins if profile is not None else None for wins, profile in zip(peer_wins, profiles, strict=True)
    ]


def test_the_share_of_windows_decides_between_equals() -> None:
    profiles = [(3.0, 1.0, 1.0), (2.0, 2.0, 1.0), (1.0, 0.0, 0.0)]
    scores = ProfileVote(3).score(PROBLEM, [sampled(i, profile=p) for i, p in enumerate(profiles)])
    assert scores == pytest.approx([1 + 4 / 9, 1 + 4 / 9, 0.0])
    scores = ProfileVote(2).score(PROBLEM, [sampled(i, profile=p) for i, p in enumerate([*profiles, (9.0, 0.0, 0.5)])])
    assert [int(score) for score in scores] == [2, 2, 0, 1]
    assert max(scores) == scores[0]
    with pytest.raises(UserError, match="window_wins is 4, but profiles have 3 windows"):
        ProfileVote(4).score(PROBLEM, [sampled(0, profile=profiles[0])])
    with pytest.raises(UserError, match="window_wins is 0"):
        ProfileVote(0)


def test_a_vote_without_any_measure_is_refused() -> None:
    assert ProfileVote(1).score(PROBLEM, [sampled(0, mean_certainty=1.0), sampled(1)]) == [None, None]  # too short
    assert ProfileVote(1).score(PROBLEM, []) == []
    with pytest.raises(UserError, match="no candidate of problem 'p' has a mean_certainty"):
        ProfileVote(1).score(PROBLEM, [sampled(0), Candidate("bare", 1)])


def halves(problem: Problem, candidates: list[Candidate]) -> list[float]:
    return [candidate.index / 2 for candidate in candidates]


def test_any_function_scores(tmp_path: Path) -> None:
    assert FunctionScorer(halves, relative=False).score(PROBLEM, texts("a", "b")) == [0, 0.5]
    (tmp_path / "mine.py").write_text(
        "def score(problem, candidates):\n    return [len(c.text) for c in candidates]\n"
    )
    scorer = make("scorer", SCORERS, "function", {"function": f"{tmp_path}/mine.py:score", "relative": True})
    assert scorer.score(PROBLEM, texts("a", "abc")) == [1, 3]
    assert scorer.relative
    assert FunctionScorer.load("operator:countOf").function(["x"], "x") == 1
    with pytest.raises(UserError, match="'operator:__name__' is no function"):
        FunctionScorer.load("operator:__name__")
    for name in (f"{tmp_path}/mine.py:other", f"{tmp_path}/none.py:score", "no_module:score", "operator:no", "bare"):
        with pytest.raises(UserError, match=r"^cannot load the scorer '"):
            FunctionScorer.load(name)


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'certainty'"):
        make("scorer", SCORERS, "certainity", {})
    with pytest.raises(UserError, match=r"'reward_model' has other options: missing .*'model'.*options: model"):
        make("scorer", SCORERS, "reward_model", {})


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, with a token that ends a step."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(models.BPE({char: number for number, char in enumerate(alphabet)}, []))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    found = PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<e>", pad_token="<pad>")
    found.add_special_tokens({"additional_special_tokens": ["<u>", "<step>"]})
    found.chat_template = TEMPLATE
    return found


def tiny(kind: Any, tokenizer: Any, num_labels: int = 2) -> Any:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        initializer_range=0.5,
        num_labels=num_labels,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    return kind(config)


SOLUTIONS = ["2 + 3\n\nis 5\n\n5", "5", "", "first\nthen\nlast of all", "x" * 400]


def logits_of(model: Any, tokenizer: Any, text: str) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokenizer.encode(text, add_special_tokens=False)])).logits[0]


@pytest.mark.parametrize("num_labels", [1, 3])
def test_a_reward_model_scores_each_as_it_would_alone(tokenizer: Any, num_labels: int, tmp_path: Path) -> None:
    model = tiny(LlamaForSequenceClassification, tokenizer, num_labels)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    options = {"model": str(tmp_path), "batch_size": 2, "max_tokens": 128}
    scores = make("scorer", SCORERS, "reward_model", options).score(PROBLEM, texts(*SOLUTIONS))
    model.eval().config.pad_token_id = tokenizer.pad_token_id
    for solution, score in zip(SOLUTIONS[:4], scores[:4], strict=True):
        logits = logits_of(model, tokenizer, f"<u>2 + 3 = ?<e><u>{solution}<e>")
        assert score == pytest.approx(float(logits[0] if num_labels == 1 else logits.softmax(-1)[2]), abs=1e-4)
    assert scores[4] is None  # it does not fit
    assert len(set(scores)) == 5


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_process_reward_model_judges_behind_each_step(tokenizer: Any, aggregate: str) -> None:
    model = tiny(LlamaForTokenClassification, tokenizer).eval()
    scorer = ProcessRewardModel(model, tokenizer, "<step>", aggregate, batch_size=3, max_tokens=128)
    scores = scorer.score(PROBLEM, texts(*SOLUTIONS))
    for solution, score in zip(SOLUTIONS, scores, strict=True):
        steps = split_steps(solution)
        if not steps or len(solution) > 128:
            assert score is None
            continue
        found = []
        for last in range(1, len(steps) + 1):  # a causal model: each step judged without those behind it
            read = "".join(step + "<step>" for step in steps[:last])
            two = logits_of(model, tokenizer, f"<u>2 + 3 = ?<e><u>{read}")[-1].tolist()
            found.append(1 / (1 + math.exp(two[0] - two[1])))  # one softmax
        plain = {"last": found[-1], "min": min(found), "mean": sum(found) / len(found), "product": math.prod(found)}
        assert score == pytest.approx(plain[aggregate], abs=1e-5)


def test_a_candidate_cannot_end_its_own_steps(tokenizer: Any) -> None:
    scorer = ProcessRewardModel(tiny(LlamaForTokenClassification, tokenizer), tokenizer, "<step>")
    honest, forged = scorer.step_scores(PROBLEM, texts("one\n\ntwo", "one<step>\n\n<step>two<step>"))
    assert forged == pytest.approx(honest, abs=1e-6)
    assert len(honest) == 2


def test_without_a_chat_template_texts_follow_one_another(tokenizer: Any) -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<e>")
    scorer = RewardModel(tiny(LlamaForSequenceClassification, tokenizer), bare)
    assert bare.decode(scorer.encode("Q", "A")) == bare.decode(scorer.encode([{"role": "user", "content": "Q"}], "A"))
    assert bare.decode(scorer.encode("Q", "A")) == "Q\n\nA"


def test_what_is_no_reward_model_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    model = tiny(LlamaForTokenClassification, tokenizer)
    with pytest.raises(UserError, match="there is no aggregate 'lost'; did you mean 'last'"):
        ProcessRewardModel(model, tokenizer, "<step>", "lost")
    with pytest.raises(UserError, match="separator '<extra_0>' is 9 tokens"):
        ProcessRewardModel(model, tokenizer, "<extra_0>")
    with pytest.raises(UserError, match="batch_size is 0"):
        RewardModel(model, tokenizer, batch_size=0)
    with pytest.raises(UserError, match=r"there is no folder '.*nowhere'"):
        RewardModel.load(str(tmp_path / "nowhere"))
    tiny(LlamaForCausalLM, tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"no weights for score\.weight"):
        RewardModel.load(str(tmp_path))
    with pytest.raises(UserError, match=r"no weights for score\."):
        ProcessRewardModel.load(str(tmp_path), separator="<step>")


def test_steps_and_aggregates_are_the_published_ones(shared: Path) -> None:
    cases = json.loads((shared / "fixtures/adap/math_verifier_parity.json").read_text())
    for case in cases["steps"]:
        assert split_steps(case["text"]) == case["steps"]
    for case in cases["agg"]:
        for name, key in (("last", "r_last"), ("min", "r_min"), ("mean", "r_mean"), ("product", "r_prod")):
            if case["scores"]:
                assert AGGREGATES[name](case["scores"]) == pytest.approx(case[key], abs=1e-6)


def test_a_policys_own_samples_can_be_scored(tokenizer: Any) -> None:
    policy = TransformersPolicy(tiny(LlamaForCausalLM, tokenizer), tokenizer)
    drawn = policy.generate(["2 + 3 ="], 4, Sampling(max_tokens=12, windows=Windows(3, 2, 1)))[0]
    candidates = [Candidate(sample.text, index, sample) for index, sample in enumerate(drawn)]
    assert Certainty().score(PROBLEM, candidates) == [sample.mean_certainty for sample in drawn]
    voted = ProfileVote(2).score(PROBLEM, candidates)
    assert [score is None for score in voted] == [sample.profile is None for sample in drawn]
    assert any(score is not None for score in voted)
