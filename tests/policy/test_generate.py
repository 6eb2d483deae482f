from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

from sif_trainer.certainty.formula import self_certainty
from sif_trainer.certainty.profile import ranked_profile
from sif_trainer.policy import PromptTooLong, Sampling, Windows
from sif_trainer.policy.decoding import draw
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.runs.errors import UserError

HOT = Sampling(temperature=1.3, max_tokens=24, seed=5)


def token_ids(samples):
    return [[sample.token_ids for sample in row] for row in samples]


def logits_of(policy, prompt, sample):
    """The full logits that predict each token of a sample, by one unpadded forward."""
    prompt_ids = policy.encoder.encode(prompt)
    with torch.no_grad():
        logits = policy.model(torch.tensor([prompt_ids + list(sample.token_ids)])).logits[0]
    return logits[len(prompt_ids) - 1 : -1].double()


def test_a_sample_depends_on_its_prompt_and_number_alone(model, tokenizer, policy, prompts):
    together = token_ids(policy.generate(prompts, n=3, sampling=HOT))
    alone = TransformersPolicy(model, tokenizer, batch_size=1)
    assert token_ids(alone.generate(prompts[::-1], n=5, sampling=HOT))[::-1] != together  # n differs
    assert [row[:3] for row in token_ids(alone.generate(prompts[::-1], n=5, sampling=HOT))[::-1]] == together
    assert len({ids for row in together for ids in row}) == 15, (
        "samples of one prompt should differ at this temperature"
    )
    assert (
        token_ids(policy.generate(prompts, n=3, sampling=Sampling(temperature=1.3, max_tokens=24, seed=6))) != together
    )


def test_samples_follow_their_uniform_numbers(policy, prompts):
    """A plain loop without cache, batch or padding, inverting the cumulative distribution in float64."""
    requests = {}
    original = policy._stream

    def remember(batch, sampling, schema):
        requests.update({(request.text, request.number): request.seed for request in batch})
        return original(batch, sampling, schema)

    policy._stream = remember
    samples = policy.generate(prompts, n=2, sampling=HOT)
    for prompt, row in zip(prompts, samples, strict=True):
        for number, sample in enumerate(row):
            generator = torch.Generator().manual_seed(requests[policy.render(prompt), number])
            uniforms = torch.rand(HOT.max_tokens, generator=generator)
            for logits, uniform, token in zip(
                logits_of(policy, prompt, sample), uniforms.tolist(), sample.token_ids, strict=False
            ):
                below, chosen = 0.0, 0
                for chosen, p in enumerate((logits / HOT.temperature).softmax(-1).tolist()):  # noqa: B007
                    below += p
                    if below > uniform:
                        break
                assert chosen == token


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "mistral with a sliding window"])
def test_greedy_equals_the_library(architecture, model, tokenizer, prompts):
    torch.manual_seed(1)
    size = {"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    if architecture == "gpt2":
        model = GPT2LMHeadModel(
            GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=96, initializer_range=0.3, **size)
        )
    elif architecture.startswith("mistral"):
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = MistralConfig(**sizes, num_key_value_heads=2, sliding_window=6, initializer_range=0.3, **size)
        model = MistralForCausalLM(config)
    model = model.eval()
    policy = TransformersPolicy(model, tokenizer, batch_size=3)
    for prompt, row in zip(prompts, policy.generate(prompts, sampling=Sampling(0, max_tokens=20)), strict=True):
        ids = torch.tensor([policy.encoder.encode(prompt)])
        expected = model.generate(
            ids, max_new_tokens=20, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(ids)
        )
        assert list(row[0].token_ids) == expected[0, ids.size(1) :].tolist()


def test_finish_reasons_and_counts(policy, prompts):
    samples = [sample for row in policy.generate(prompts, n=8, sampling=HOT) for sample in row]
    eos = policy.encoder.tokenizer.eos_token_id
    assert {sample.finish_reason for sample in samples} == {"stop", "length"}
    for sample in samples:
        assert sample.num_tokens == len(sample.token_ids)
        assert (sample.token_ids[-1] == eos) == (sample.finish_reason == "stop")
        assert eos not in sample.token_ids[:-1]
        assert sample.finish_reason == "stop" or sample.num_tokens == HOT.max_tokens
    assert policy.counters.num_calls == 40
    assert policy.counters.num_generated_tokens == sum(sample.num_tokens for sample in samples)
    assert policy.counters.num_prompt_tokens == 8 * sum(len(policy.encoder.encode(prompt)) for prompt in prompts)
    assert policy.counters.seconds > 0


def test_every_end_token_ends(model, tokenizer):
    model = copy.deepcopy(model)
    free = TransformersPolicy(model, tokenizer).generate(["x"], sampling=Sampling(0, max_tokens=6))[0][0]
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, free.token_ids[2]]
    sample = TransformersPolicy(model, tokenizer).generate(["x"], sampling=Sampling(0, max_tokens=6))[0][0]
    assert (sample.finish_reason, sample.token_ids) == ("stop", free.token_ids[:3])


def test_stop_strings_cut_the_text(policy, prompts):
    free = policy.generate(prompts, n=4, sampling=HOT)
    letters = [sample.text[3:5] for row in free for sample in row if len(sample.text) > 6][:2]
    stopped = policy.generate(prompts, n=4, sampling=Sampling(1.3, max_tokens=24, seed=5, stop=tuple(letters)))
    num_cut = 0
    for free_row, row in zip(free, stopped, strict=True):
        for whole, sample in zip(free_row, row, strict=True):
            places = [place for place in map(whole.text.find, letters) if place >= 0]
            assert sample.text == whole.text[: min(places, default=None)]
            if places:
                num_cut += 1
                assert sample.finish_reason == "stop"
                assert sample.token_ids == whole.token_ids[: sample.num_tokens]
    assert num_cut >= 2


def test_skipped_samples_leave_the_others_bit_identical(policy, prompts):
    n = 9  # 45 samples: three units of 16 rows
    whole = {(i, j): sample for i, j, sample in policy.stream(prompts, n, HOT)}
    skip = [pair for number, pair in enumerate(whole) if number % 3]
    rest = {(i, j): sample for i, j, sample in policy.stream(prompts, n, HOT, skip=skip)}
    assert rest == {pair: sample for pair, sample in whole.items() if pair not in skip}  # log-probabilities included
    calls = policy.counters.num_prompt_tokens
    assert list(policy.stream(prompts, n, HOT, skip=whole)) == []
    assert policy.counters.num_prompt_tokens == calls, "nothing is computed where nothing is missing"


def test_first_numbers_the_samples(policy, prompts):
    whole = token_ids(policy.generate(prompts, n=5, sampling=HOT))
    later = {(i, j): sample.token_ids for i, j, sample in policy.stream(prompts, 2, HOT, first=3)}
    assert later == {(i, j): whole[i][3 + j] for i in range(5) for j in range(2)}


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_certainty_and_profile_equal_the_definition(temperature, policy, prompts):
    windows = Windows(num_windows=3, window_size=4, min_stride=2)
    sampling = Sampling(temperature, max_tokens=20, windows=windows)
    num_profiles = 0
    for prompt, row in zip(prompts, policy.generate(prompts, n=3, sampling=sampling), strict=True):
        for sample in row:
            logits = logits_of(policy, prompt, sample) / (temperature or 1)
            certainty = self_certainty(logits)
            log_p = logits.log_softmax(-1).gather(-1, torch.tensor(sample.token_ids)[:, None])
            assert sample.mean_certainty == pytest.approx(certainty.mean().item(), abs=1e-5)
            assert sample.mean_log_probability == pytest.approx(log_p.mean().item(), abs=1e-5)
            if sample.num_tokens < 8:
                assert sample.profile is None
            else:
                expected = ranked_profile(certainty[None], torch.ones(1, len(certainty)).bool(), 3, 4)
                assert sample.profile == pytest.approx(expected[0].tolist(), abs=1e-5)
                num_profiles += 1
    assert num_profiles
    assert policy.generate(["x"], sampling=HOT)[0][0].mean_certainty is None


def test_the_context_ends_a_sample_and_refuses_a_prompt(policy):
    longest = [0] * 95  # of 96
    policy.encoder.encode = lambda prompt: [7] * len(prompt)
    sample = policy.generate(["x" * 90], sampling=Sampling(max_tokens=50, seed=3))[0][0]
    assert sample.num_tokens <= 6
    assert policy.generate(["x" * len(longest)], sampling=HOT)[0][0].num_tokens == 1
    with pytest.raises(PromptTooLong, match="95 tokens") as caught:
        policy.generate(["x", "x" * 96, "x", "x" * 200], n=3, sampling=HOT)
    assert caught.value.indices == (1, 3)


def test_max_input_tokens_bounds_the_prompt(model, tokenizer):
    policy = TransformersPolicy(model, tokenizer, max_input_tokens=3)
    policy.encoder.encode = lambda prompt: [7] * len(prompt)
    assert policy.generate(["xxx"], sampling=HOT)[0][0].num_tokens
    with pytest.raises(PromptTooLong, match="limit of 3"):
        policy.generate(["xxxx"], sampling=HOT)


def test_the_chat_template_and_its_arguments(model, tokenizer):
    chat = [{"role": "user", "content": "hi"}]
    assert TransformersPolicy(model, tokenizer).render(chat) == "<|user|>hi<|end|><|assistant|>"
    quiet = TransformersPolicy(model, tokenizer, chat_template_kwargs={"thinking": False})
    assert quiet.render(chat).endswith("<|assistant|><|quiet|>")
    assert len(quiet.encoder.encode(chat)) == 6
    plain = TransformersPolicy(model, tokenizer, chat_template="{{ messages[0]['content'] }}!")
    assert plain.render(chat) == "hi!"
    picky = TransformersPolicy(model, tokenizer, chat_template="{{ raise_exception('no system role') }}")
    with pytest.raises(UserError, match="no system role"):
        picky.render(chat)


def test_without_a_chat_template_contents_are_joined(model, tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = None
    policy = TransformersPolicy(model, tokenizer)
    chat = [{"role": "system", "content": "yes or no"}, {"role": "user", "content": "the fox"}]
    assert policy.render(chat) == "yes or no\n\nthe fox"
    assert token_ids(policy.generate([chat], sampling=HOT)) == token_ids(
        policy.generate([policy.render(chat)], sampling=HOT)
    )


def test_a_live_model_keeps_its_mode(model, tokenizer):
    model = copy.deepcopy(model).train()
    policy = TransformersPolicy(model, tokenizer)
    assert policy.generate(["x"], sampling=HOT)[0][0].num_tokens
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_broken_weights_are_named(model, tokenizer):
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    with pytest.raises(UserError, match="not numbers"):
        TransformersPolicy(model, tokenizer).generate(["x"], sampling=HOT)
    with pytest.raises(UserError, match="not numbers"):
        TransformersPolicy(model, tokenizer).score(["x"], ["yes", "no"])


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"top_k": -1},
        {"max_tokens": 0},
        {"stop": "x"},
    ],
)
def test_impossible_sampling_is_refused(settings):
    with pytest.raises(UserError, match=next(iter(settings))):
        Sampling(**settings)


def test_no_samples_is_refused(policy):
    with pytest.raises(UserError, match="n is 0"):
        policy.generate(["x"], n=0)


@settings(deadline=None, max_examples=200)
@given(
    logits=st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12),
    uniform=st.floats(0, 1, exclude_max=True, width=32),
    top_k=st.integers(0, 13),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
)
def test_draw_against_a_plain_loop(logits, uniform, top_k, top_p, temperature):
    p = (torch.tensor(logits, dtype=torch.float64) / temperature).softmax(-1).tolist()
    token = int(draw(torch.tensor([logits]), torch.tensor([uniform]), Sampling(temperature, top_p, top_k))[0])
    ranked = sorted(range(len(p)), key=lambda token: (-p[token], token))
    num_kept = top_k or len(p)
    mass, above, nucleus = sum(p[other] for other in ranked[:num_kept]), 0.0, []
    for other in ranked[:num_kept]:
        if above < top_p * mass:
            nucleus.append(other)
        above += p[other]
        assume(top_p == 1 or abs(above - top_p * mass) > 1e-5)  # a border that fp32 may round either way
    assume(len(nucleus) == len(p) or p[ranked[len(nucleus) - 1]] - p[ranked[len(nucleus)]] > 1e-6)
    assert token in nucleus
    total, below = sum(p[other] for other in nucleus), 0.0
    borders = [sum(p[other] for other in sorted(nucleus)[:count]) / total for count in range(1, len(nucleus))]
    assume(all(abs(border - uniform) > 1e-5 for border in borders))
    for other in sorted(nucleus):
        if below <= uniform * total < below + p[other]:
            assert token == other
        below += p[other]


@pytest.mark.parametrize("wrong", [(0, 2, 1), (3, 0, 1), (3, 2, -1)])
def test_windows_that_cannot_be_laid_are_refused(wrong):
    with pytest.raises(UserError, match=r"windows \(.*\): their number and size must be at least 1"):
        Windows(*wrong)
