"""Training with TRL's colocated vLLM: certainty and log-probabilities out of the engine, and its weights watched.

TRL means this mode for GPUs. On vLLM's CPU build it runs once the engine is eager and keeps its weights unpacked,
because packed ones are not replaced by new ones; both is arranged here and not in the package.
"""

from __future__ import annotations

import gc
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from peft import LoraConfig
from torch import Tensor
from transformers import TrainerCallback

from sif_trainer.certainty.formula import entropy, self_certainty, token_log_probs
from sif_trainer.certainty.head import TokenScores
from sif_trainer.runs.records import Records
from sif_trainer.trainer.signs import THRESHOLDS
from sif_trainer.trainer.trainer import SIFTrainer

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs the extra vllm")
METRICS = Path(__file__).parents[2] / "docs" / "metrics.md"
SETTINGS = {"use_vllm": True, "vllm_max_model_length": 64, "temperature": 0.8, "max_steps": 2}
CERTAINTY = "engine/certainty_difference"
WEIGHTS = "engine/weight_difference"
LOG_PROBS = "sampling/sampling_logp_difference/mean"


def forget_what_trl_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that would outlive a test, and make the next trainer believe that it was launched."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TRL's colocated engine run on vLLM's CPU build."""
    import vllm
    from trl.generation import vllm_generation
    from vllm.model_executor.layers import utils

    class PlainLLM(vllm.LLM):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs, enforce_eager=True, dtype="float32")

    def plain_linear(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    monkeypatch.setattr(vllm_generation, "LLM", PlainLLM)
    monkeypatch.setattr(utils, "dispatch_cpu_unquantized_gemm", plain_linear)
    forget_what_trl_sets(monkeypatch)
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_USE_V2_MODEL_RUNNER"):
        monkeypatch.setenv(name, "0")  # as TRL and the trainer set them
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    gc.collect()  # engines of one process share what one takes away when it is collected


def on_disk(folder: Path, seed: int = 0) -> Any:
    """A policy as large as vLLM's kernels want it, that vLLM can load."""
    policy = tiny.model(seed, hidden_size=128, intermediate_size=128, initializer_range=0.1)
    policy.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return type(policy).from_pretrained(folder)


class Watched(SIFTrainer):
    """Keeps what it scored, and what the policy says of it at that moment."""

    def _token_scores(self) -> TokenScores:
        scores = super()._token_scores()
        self.seen = [*getattr(self, "seen", []), (self._rollout, scores, self.expected())]
        return scores

    def expected(self) -> list[tuple[Tensor, ...]]:
        rows = []
        for prompt, completion in zip(self._rollout.prompt_ids, self._rollout.completion_ids, strict=True):
            ids = torch.tensor([[*prompt, *completion]], device=self.model.device)
            with torch.no_grad(), self.accelerator.autocast():
                logits = self.model(ids).logits[0, len(prompt) - 1 : -1].float() / self.temperature
            tokens = ids[0, len(prompt) :]
            rows.append((token_log_probs(logits, tokens), entropy(logits), self_certainty(logits)))
        return rows


def watched(folder: Path, peft_config: Any = None, **settings: Any) -> Watched:
    return Watched(
        on_disk(folder / "model"),
        args=tiny.config(folder / "run", **{**SETTINGS, **settings}),
        train_dataset=tiny.prompts(),
        processing_class=tiny.tokenizer(),
        peft_config=peft_config,
    )


def records(folder: Path) -> list[dict[str, Any]]:
    return list(Records(folder / "run" / "metrics.jsonl", writer=False))


def check(trainer: Watched, tolerance: float) -> None:
    """What was scored is what the policy says, at the rollout's temperature; completions differ in length."""
    lengths = set()
    for rollout, scores, expected in trainer.seen:
        for row, (ids, values) in enumerate(zip(rollout.completion_ids, expected, strict=True)):
            lengths.add(len(ids))
            for got, wanted in zip((scores.log_probs, scores.entropy, scores.certainty), values, strict=True):
                torch.testing.assert_close(got[row, : len(ids)], wanted, atol=tolerance, rtol=0)
                assert not got[row, len(ids) :].any()
    assert len(lengths) > 1


@needs_vllm
@pytest.mark.vllm
@pytest.mark.parametrize("correction", [True, False])
def test_two_steps_with_certainty_from_the_engine(on_cpu: None, tmp_path: Path, correction: bool) -> None:
    trainer = watched(tmp_path, certainty_source="engine", vllm_importance_sampling_correction=correction)
    before = tiny.weights(trainer)
    trainer.train()
    assert not torch.equal(before, tiny.weights(trainer))
    assert len(trainer.seen) == 2
    check(trainer, 1e-4)
    for record in records(tmp_path):
        assert record[WEIGHTS] == 0.0
        assert (record[CERTAINTY] < 1e-4) if correction else (CERTAINTY not in record)
        assert (record[LOG_PROBS] < 1e-4) if correction else (LOG_PROBS not in record)
        written = {key for key in record if key.startswith(("engine/", "sampling/"))}
        documented = set(re.findall(r"`((?:engine|sampling)/[^`]+)`", METRICS.read_text()))
        assert written == documented if correction else written < documented


@needs_vllm
@pytest.mark.vllm
def test_an_adapter_is_merged_into_the_engine(on_cpu: None, tmp_path: Path) -> None:
    adapter = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    trainer = watched(tmp_path, adapter, certainty_source="engine")
    trainer.train()
    check(trainer, 1e-4)
    assert [record[WEIGHTS] for record in records(tmp_path)] == [0.0, 0.0]


@needs_vllm
@pytest.mark.vllm
def test_an_engine_that_stays_behind_is_seen(on_cpu: None, tmp_path: Path) -> None:
    class Deaf(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            worker = trainer.vllm_generation.llm.llm_engine.model_executor.driver_worker
            worker.model_runner.model.load_weights = lambda weights: None

    trainer = watched(tmp_path, max_steps=3, learning_rate=0.03)
    trainer.add_callback(Deaf())
    trainer.train()
    first, *later = records(tmp_path)
    assert first[WEIGHTS] == 0.0 and first[LOG_PROBS] < 1e-4
    assert all(record[WEIGHTS] > THRESHOLDS["most_weight_difference"] for record in later)
    assert all(record[LOG_PROBS] > 100 * first[LOG_PROBS] for record in later)


@needs_vllm
@pytest.mark.vllm
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("sleeps", [False, True])
@pytest.mark.parametrize("adapter", [False, True])
def test_two_steps_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, adapter: bool, sleeps: bool) -> None:
    """TRL's own engine: compiled, asynchronous, in 16 bits, and put to sleep between steps."""
    forget_what_trl_sets(monkeypatch)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    trainer = watched(
        tmp_path,
        lora if adapter else None,
        certainty_source="engine",
        use_cpu=False,
        bf16=True,
        vllm_gpu_memory_utilization=0.2,
        vllm_enable_sleep_mode=sleeps,
    )
    trainer.train()
    assert len(trainer.seen) == 2
    for rollout, scores, expected in trainer.seen:
        for row, (ids, values) in enumerate(zip(rollout.completion_ids, expected, strict=True)):
            for got, wanted in zip((scores.log_probs, scores.entropy, scores.certainty), values, strict=True):
                assert (got[row, : len(ids)] - wanted).abs().mean() < 0.1
    for record in records(tmp_path):
        assert record[WEIGHTS] == 0.0 and record[CERTAINTY] < 0.05 and record[LOG_PROBS] < 0.05
