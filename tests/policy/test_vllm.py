from __future__ import annotations

import importlib.util

import pytest

from sif_trainer.policy import PromptTooLong, Sampling, load_policy
from sif_trainer.runs.errors import UserError

HAS_VLLM = importlib.util.find_spec("vllm") is not None
needs_vllm = pytest.mark.skipif(not HAS_VLLM, reason="needs the extra vllm")
GREEDY = Sampling(temperature=0, max_tokens=12)


@pytest.mark.skipif(HAS_VLLM, reason="vllm is installed")
def test_a_missing_package_names_its_extra():
    with pytest.raises(UserError, match=r"sif-trainer\[vllm\]"):
        load_policy("vllm:some/model")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, large_heads, tokenizer):
    folder = tmp_path_factory.mktemp("vllm") / "checkpoint"
    large_heads.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def fast(checkpoint):
    compact = {"backend": "xgrammar", "disable_any_whitespace": True}  # else random weights write blanks for ever
    small = {"max_model_len": 128, "enforce_eager": True, "gpu_memory_utilization": 0.1}
    options = {**small, "structured_outputs_config": compact}
    return load_policy(f"vllm:{checkpoint}", dtype="float32", **options)


@pytest.fixture(scope="module")
def slow(checkpoint):
    return load_policy(f"transformers:{checkpoint}", device="cpu")


@needs_vllm
@pytest.mark.vllm
def test_greedy_answers_are_those_of_transformers(fast, slow, prompts):
    expected = slow.generate(prompts, sampling=GREEDY)
    for (sample,), (other,) in zip(fast.generate(prompts, sampling=GREEDY), expected, strict=True):
        assert (sample.token_ids, sample.finish_reason) == (other.token_ids, other.finish_reason)
        assert other.text.startswith(sample.text), "vLLM holds back the bytes of an unfinished character"


@needs_vllm
@pytest.mark.vllm
def test_samples_have_seeds_of_their_own(fast, prompts):
    sampling = Sampling(temperature=1.0, max_tokens=12, seed=3)
    whole = {(i, j): sample.token_ids for i, j, sample in fast.stream(prompts, 3, sampling)}
    assert len(set(whole.values())) == 15
    rest = {(i, j): sample.token_ids for i, j, sample in fast.stream(prompts, 3, sampling, skip=list(whole)[:10])}
    assert rest == {pair: ids for pair, ids in whole.items() if pair in rest}
    assert len(rest) == 5


@needs_vllm
@pytest.mark.vllm
@pytest.mark.parametrize("labels", [["yes", "no"], ["the", "maybe not", "12 + 30 = 42", "12 + 30"]])
def test_scores_are_those_of_transformers(fast, slow, prompts, labels):
    for row, expected in zip(fast.score(prompts, labels), slow.score(prompts, labels), strict=True):
        assert row == pytest.approx(expected, abs=1e-3)


@needs_vllm
@pytest.mark.vllm
def test_replies_are_constrained(fast, prompts):
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    schema["additionalProperties"] = False
    replies = fast.reply(prompts, schema, Sampling(temperature=0, max_tokens=40), show_schema=False, max_attempts=1)
    assert all(isinstance(reply.value["yes"], bool) for reply in replies)


@needs_vllm
@pytest.mark.vllm
def test_long_prompts_and_certainty_are_refused(fast):
    with pytest.raises(PromptTooLong) as caught:
        fast.generate(["x", "y" * 500], sampling=GREEDY)
    assert caught.value.indices == (1,)
    with pytest.raises(UserError, match="certainty=True"):
        fast.generate(["x"], sampling=Sampling(certainty=True))


@needs_vllm
@pytest.mark.vllm
def test_an_abandoned_stream_leaves_nothing_behind(fast, prompts):
    stream = fast.stream(prompts, 4, Sampling(max_tokens=100))
    next(stream)
    stream.close()
    assert not fast.llm.llm_engine.has_unfinished_requests()
    assert len(fast.generate(prompts, sampling=GREEDY)) == 5
