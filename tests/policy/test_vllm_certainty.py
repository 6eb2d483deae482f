"""Certainty from inside vLLM against the forward of transformers with the same weights."""

from __future__ import annotations

import copy
import gc
import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from sif_trainer.certainty.formula import entropy, self_certainty
from sif_trainer.certainty.recording import Recording
from sif_trainer.policy import Sampling, load_policy
from sif_trainer.policy.policy import Windows
from sif_trainer.runs.errors import UserError

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs the extra vllm"),
]
VOCABULARY = 320
SMALL = {"max_model_len": 128, "enforce_eager": True, "gpu_memory_utilization": 0.1}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: Any, large_heads: Any, tokenizer: Any) -> Path:
    """Sharp enough that tokens matter, with an end of text that is met early by some and never by others."""
    model = copy.deepcopy(large_heads)
    with torch.no_grad():
        model.lm_head.weight[tokenizer.eos_token_id] *= 1.5
    folder = tmp_path_factory.mktemp("vllm_certainty") / "checkpoint"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Resumed(Recording):
    """Counts what the batch goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.num_moved = self.num_resumed = 0

    def update(self, removed: Any, added: Any, moved: Any) -> None:
        self.num_moved += len(moved)
        self.num_resumed += sum(bool(output) for _, _, output, _ in added)
        super().update(removed, added, moved)


@pytest.fixture(autouse=True)
def one_engine_at_a_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Engines in one process share its process groups, which one takes away when it is collected."""
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_USE_V2_MODEL_RUNNER"):
        monkeypatch.setenv(name, "0")  # set by the code under test, too, but not taken back by it
    gc.collect()
    yield
    gc.collect()


def engine(checkpoint: Path, recording: Recording, dtype: str = "float32", **options: Any) -> Any:
    import vllm

    from sif_trainer.policy.vllm_certainty import certainty_processor, check_recorded, choose_runner

    choose_runner()
    processor = certainty_processor(recording)
    llm = vllm.LLM(str(checkpoint), dtype=dtype, max_num_seqs=6, logits_processors=[processor], **SMALL, **options)
    check_recorded(processor)
    return llm


def differences(llm: Any, recording: Recording, checkpoint: Path, temperature: float) -> tuple[torch.Tensor, set[int]]:
    """(2, N) differences of certainty and entropy from the forward's, for every token, and the lengths."""
    import vllm

    source = random.Random(0)
    prompts = [[source.randrange(10, VOCABULARY) for _ in range(source.randrange(1, 40))] for _ in range(7)]
    params = vllm.SamplingParams(
        n=4, temperature=temperature, max_tokens=60
    )  # a seed each fails with prompts in pieces on a CPU
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
    model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=llm.llm_engine.model_config.dtype)
    found, lengths = [], set()
    for output in outputs:
        prompt = output.prompt_token_ids
        for completion in output.outputs:
            ids = list(completion.token_ids)
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float() / temperature
            found.append(recording.scores(prompt, ids) - torch.stack([self_certainty(logits), entropy(logits)]))
            lengths.add(len(ids))
    recording.clear()
    return torch.cat(found, dim=1).abs(), lengths


def test_float32_whatever_the_batch_goes_through(checkpoint: Path) -> None:
    recording = Resumed()
    few = {
        "num_gpu_blocks_override": 8,
        "block_size": 32,
        "max_num_batched_tokens": 16,
    }  # preemption, prompts in pieces
    llm = engine(checkpoint, recording, enable_chunked_prefill=True, **few)
    for temperature in (1.0, 0.7):
        found, lengths = differences(llm, recording, checkpoint, temperature)
        assert found.max() < 1e-4
        assert len(lengths) > 10 and max(lengths) == 60, "some end early, some are cut"
    assert recording.num_moved and recording.num_resumed


def test_bfloat16_to_its_rounding(checkpoint: Path) -> None:
    recording = Recording()
    found, _ = differences(engine(checkpoint, recording, "bfloat16"), recording, checkpoint, 1.0)
    assert found[0].mean() < 0.03 and found[0].max() < 0.3


def test_masks_are_refused_and_cuts_are_not_seen(checkpoint: Path) -> None:
    import vllm

    recording = Recording()
    llm = engine(checkpoint, recording)
    prompt = {"prompt_token_ids": [11, 12, 13]}
    for masks in ({"min_tokens": 3}, {"logit_bias": {5: 1.0}}, {"allowed_token_ids": [5, 6]}, {"bad_words": ["a"]}):
        with pytest.raises(Exception, match=f"no certainty under {next(iter(masks))}"):
            llm.generate(prompt, vllm.SamplingParams(**masks), use_tqdm=False)
    seen = []
    for cuts in ({}, {"top_k": 2}, {"top_p": 0.1}, {"min_p": 0.9}, {"repetition_penalty": 2.0}):
        (output,) = llm.generate(prompt, vllm.SamplingParams(max_tokens=1, **cuts), use_tqdm=False)
        seen.append(recording.scores([11, 12, 13], output.outputs[0].token_ids))
        recording.clear()
    assert all(torch.equal(row, seen[0]) for row in seen)


def test_a_runner_of_the_users_own_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from sif_trainer.policy.vllm_certainty import choose_runner

    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "1")
    with pytest.raises(UserError, match="VLLM_USE_V2_MODEL_RUNNER=1"):
        choose_runner()


def test_samples_of_the_policy_carry_their_certainty(checkpoint: Path, prompts: list[Any]) -> None:
    policy = load_policy(f"vllm:{checkpoint}", certainty=True, dtype="float32", **SMALL)
    other = load_policy(f"transformers:{checkpoint}", device="cpu")
    sampling = Sampling(temperature=0, max_tokens=20, windows=Windows(num_windows=3, window_size=4, min_stride=2))
    num_profiles = 0
    pairs = zip(policy.generate(prompts, 2, sampling), other.generate(prompts, 2, sampling), strict=True)
    for samples, expected in pairs:
        for sample, like in zip(samples, expected, strict=True):
            assert sample.token_ids == like.token_ids
            assert sample.mean_certainty == pytest.approx(like.mean_certainty, abs=1e-4)
            assert (sample.profile is None) == (like.profile is None)
            if sample.profile is not None:
                assert sample.profile == pytest.approx(like.profile, abs=1e-4)
                num_profiles += 1
    assert num_profiles
    assert policy.generate(["x"], 1, Sampling(max_tokens=2))[0][0].mean_certainty is None
    with pytest.raises(UserError, match="no structured replies"):
        policy.reply(["x"], {"type": "object"}, Sampling(max_tokens=5), max_attempts=1)
