"""A forecast of the memory that training takes on each device, before a weight is loaded.

    for name, size in forecast_memory(model_config, recipe, config, batch, launch, prompt_length=512).rows: ...

Weights, gradients and optimizer are arithmetic; activations are counted on tensors without data (trainer/trace.py).
The peak is the largest of three phases: generation, scoring, update. benchmarks/memory.py compares it with what runs
took. Not counted: fragmentation, a library's own context, the intermediate results of communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from sif_trainer.certainty.tiles import TILE_TOKENS, TILE_VOCABULARY, TILE_VOCABULARY_CPU
from sif_trainer.trainer.adapters import with_adapter
from sif_trainer.trainer.batch import BatchPlan
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.launched import Launch
from sif_trainer.trainer.trace import head_tile, model_without_data, peak_of_forward, peak_of_update

SAMPLING_COPIES = 4  # fp32 logits, scores, probabilities and their cumulative sum, each rows x vocabulary
_STATE_BYTES = {"adafactor": 0, "sgd": 0, "8bit": 2}  # per trained parameter; AdamW keeps two of the weight's own kind


@dataclass(frozen=True)
class MemoryForecast:
    """Bytes per device: what is there all the time, what each phase adds, and main memory that offloading takes."""

    weights: int
    reference: int
    optimizer: int
    gradients: int
    activations: int
    logits_tiles: int
    kv_cache: int
    generation: int
    scoring: int
    update: int
    engine: int
    host: int
    num_parameters: int
    num_trained: int

    @property
    def static(self) -> int:
        """What is held in every phase."""
        return self.weights + self.reference + self.optimizer + self.engine

    @property
    def peak(self) -> int:
        """The most that is held at once."""
        return self.static + max(self.generation, self.scoring, self.update)

    @property
    def rows(self) -> list[tuple[str, int]]:
        """Name and bytes of each part, for a table."""
        return [
            ("weights", self.weights),
            ("reference policy", self.reference),
            ("optimizer", self.optimizer),
            ("gradients", self.gradients),
            ("activations, one micro-batch", self.activations),
            ("logits tiles", self.logits_tiles),
            ("KV cache", self.kv_cache),
            ("vLLM in this process", self.engine),
        ]


def forecast_memory(
    model_config: Any,
    recipe: Any,
    config: SIFConfig,
    batch: BatchPlan,
    launch: Launch,
    prompt_length: int,
    on_cpu: bool,
    device_bytes: int = 0,
) -> MemoryForecast:
    """Forecast the peak of a step whose prompts and completions all have the greatest length.

    Args:
        model_config: transformers' configuration of the model.
        recipe: the training recipe, for the type of the weights and the adapter.
        config: the trainer's settings.
        batch: the arithmetic of a step for the processes of `launch`.
        launch: processes and sharding.
        prompt_length: tokens of the longest prompt.
        on_cpu: whether it runs on a CPU.
        device_bytes: memory of a device, of which vLLM takes its share when it runs in the same process.
    """
    dtype = weight_dtype(recipe.dtype, model_config, on_cpu)
    compute = torch.bfloat16 if config.bf16 and not on_cpu else dtype
    model = model_without_data(model_config, compute)
    with torch.device("meta"):
        model = with_adapter(model, recipe)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable(dict(config.gradient_checkpointing_kwargs or {"use_reentrant": False}))
        if recipe.trains_adapter:
            model.enable_input_require_grads()
    num_parameters = sum(p.numel() for p in model.parameters())
    num_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    head = model.get_output_embeddings().weight
    rows, limit = batch.per_device_train_batch_size, config.max_completion_length or 0
    length = prompt_length + limit

    # Scores are dense on a CPU; elsewhere only the completion's positions meet the head.
    scored = rows * (length - 1 if on_cpu else limit)
    update = peak_of_update(model, rows, length, scored, on_cpu, batch.gradient_accumulation_steps > 1)
    width = min(len(head), TILE_VOCABULARY_CPU if on_cpu else TILE_VOCABULARY)
    certainty = 2 * 4 * min(rows * limit, TILE_TOKENS) * width
    scoring = peak_of_forward(model, rows, length) + certainty
    tiles = max(certainty, head_tile(scored, head, on_cpu))
    kv_cache, generation = _generation(model_config, model, config, batch, prompt_length, compute)

    sharding = _Sharding(launch)
    embeddings = {id(w): w.numel() for w in (head, model.get_input_embeddings().weight)}  # one, where they are tied
    in_4bit = num_parameters - num_trained - sum(embeddings.values()) if recipe.load_in_4bit else 0
    parameter_bytes, trained_bytes, optimizer = _static(config, launch, num_parameters, num_trained, in_4bit, dtype)
    copies = 2 * num_parameters if compute != dtype and sharding.whole_weights else 0  # of autocast, in each forward
    gradients = trained_bytes
    grown = max(update - gradients, 0)  # activations, tiles among them
    whole_reference = parameter_bytes if config.beta and not recipe.trains_adapter else 0
    layer = parameter_bytes // max(int(getattr(model_config, "num_hidden_layers", 1)), 1)
    gathered = 0 if sharding.whole_weights else 2 * layer + head.numel() * 4
    engine = round(device_bytes * config.vllm_gpu_memory_utilization) if _engine_here(config) else 0
    return MemoryForecast(
        weights=0 if sharding.offloads_weights else sharding.of_weights(parameter_bytes),
        reference=0 if sharding.offloads_weights else sharding.of_weights(whole_reference),
        optimizer=0 if launch.offload else sharding.of_optimizer(optimizer),
        gradients=sharding.of_gradients(gradients),
        activations=max(grown - tiles, 0),
        logits_tiles=tiles,
        kv_cache=kv_cache,
        generation=generation + gathered + copies,
        scoring=scoring + gathered + copies,
        update=grown + sharding.of_gradients(gradients) + gathered + copies,
        engine=engine,
        host=(sharding.of_optimizer(optimizer) if launch.offload else 0)
        + (sharding.of_weights(parameter_bytes + whole_reference) if sharding.offloads_weights else 0),
        num_parameters=num_parameters,
        num_trained=num_trained,
    )


def weight_dtype(wanted: str, model_config: Any, on_cpu: bool) -> torch.dtype:
    """The type that `load_trainable` gives the weights."""
    if wanted != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[wanted]
    stored = getattr(model_config, "dtype", None)
    return torch.float32 if on_cpu or not isinstance(stored, torch.dtype) else stored


@dataclass(frozen=True)
class _Sharding:
    """What each strategy divides by the number of processes."""

    launch: Launch

    @property
    def whole_weights(self) -> bool:
        return self.launch.strategy not in ("zero3", "fsdp2")

    @property
    def offloads_weights(self) -> bool:
        return self.launch.offload and self.launch.strategy == "zero3"

    def of_weights(self, size: int) -> int:
        return size if self.whole_weights else size // self.launch.num_processes

    def of_gradients(self, size: int) -> int:
        return size if self.launch.strategy in ("none", "ddp") else size // self.launch.num_processes

    def of_optimizer(self, size: int) -> int:
        return self.of_gradients(size)


def _static(
    config: SIFConfig, launch: Launch, num_parameters: int, num_trained: int, in_4bit: int, dtype: torch.dtype
) -> tuple[int, int, int]:
    """Bytes of weights, of gradients and of the optimizer, before they are divided."""
    size = dtype.itemsize
    optim = str(config.optim)
    per_state = next((count for name, count in _STATE_BYTES.items() if name in optim), None)
    if launch.strategy == "fsdp2" and launch.mixed_precision != "no":
        size = 4  # accelerate keeps sharded weights in fp32 and casts what it gathers
    weights = in_4bit // 2 + (num_parameters - in_4bit) * size
    master = 4 * num_trained if launch.strategy.startswith("zero") and size == 2 else 0
    states = 2 * (4 if master else size) * num_trained if per_state is None else per_state * num_trained
    return weights, size * num_trained, states + master


def _generation(
    model_config: Any, model: Any, config: SIFConfig, batch: BatchPlan, prompt_length: int, dtype: torch.dtype
) -> tuple[int, int]:
    """KV cache at full length, and the most that generation adds; all rows of a step are generated at once."""
    if config.use_vllm:
        return 0, 0
    # 1 step's rows at once, but for a user who wants more.
    steps = (config.steps_per_generation or 1) / config.batch_plan.gradient_accumulation_steps
    rows = round(batch.per_device_train_batch_size * batch.gradient_accumulation_steps * steps)
    text = model_config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    head_size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    per_token = 2 * text.num_hidden_layers * heads * head_size * dtype.itemsize
    cache = rows * per_token * (prompt_length + (config.max_completion_length or 0))
    sampling = SAMPLING_COPIES * 4 * rows * text.vocab_size
    one_layer = cache // text.num_hidden_layers  # a layer's cache is copied when it grows
    with _no_checkpointing(model):
        prefill = peak_of_forward(model, rows, prompt_length) + rows * per_token * prompt_length
    return cache, max(cache + one_layer + sampling, prefill + sampling)


@contextmanager
def _no_checkpointing(model: Any) -> Iterator[None]:
    model.eval()
    yield
    model.train()


def _engine_here(config: SIFConfig) -> bool:
    return bool(config.use_vllm) and config.vllm_mode == "colocate"
