"""What a step costs: floating-point operations, bytes read, bytes sent; and from that, on given hardware, seconds.

    cost = step_cost(Shape(...), batch, launch, ...)
    seconds(cost, DEVICES["H100"], link=300e9)

The formulas and what they leave out are in docs/scaling.md; benchmarks/scaling.py holds them against steps that ran.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import torch

from sif_trainer.trainer.batch import BatchPlan
from sif_trainer.trainer.launched import Launch


@dataclass(frozen=True)
class Device:
    """Peak rates from the maker's data sheet: bf16 operations and bytes of its own memory per second; its memory."""

    flops: float
    bandwidth: float
    memory: float


DEVICES = {
    "H200": Device(989e12, 4.8e12, 141e9),
    "H100": Device(989e12, 3.35e12, 80e9),
    "A100": Device(312e12, 2.0e12, 80e9),
    "L40S": Device(362e12, 0.864e12, 48e9),
    "RTX 4090": Device(165e12, 1.008e12, 24e9),
    "RTX 3090": Device(71e12, 0.936e12, 24e9),
    "L4": Device(121e12, 0.3e12, 24e9),
}


def device_called(name: str) -> Device | None:
    """Return the device of a driver's name for it, such as "NVIDIA A100-SXM4-80GB"; an L40 is no L4."""
    return next((device for kind, device in DEVICES.items() if re.search(rf"\b{kind}\b", name)), None)


EFFICIENCY = 0.4  # share of the peak rates that steps of this kind reach: an assumption, and said to be one


@dataclass(frozen=True)
class Shape:
    """What of a model a step's cost depends on."""

    num_parameters: int
    num_trained: int
    num_layers: int
    hidden_size: int
    kv_bytes_per_token: int
    weight_bytes: int

    @classmethod
    def of(cls, model_config: Any, num_parameters: int, num_trained: int, itemsize: int) -> Shape:
        """Read the shape off transformers' configuration; `itemsize` is the bytes of a weight in computation."""
        text = model_config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        head_size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return cls(
            num_parameters=num_parameters,
            num_trained=num_trained,
            num_layers=text.num_hidden_layers,
            hidden_size=text.hidden_size,
            kv_bytes_per_token=2 * text.num_hidden_layers * heads * head_size * itemsize,
            weight_bytes=num_parameters * itemsize,
        )


@dataclass(frozen=True)
class StepCost:
    """Per process and optimizer step. Generation is bound by bytes read, the rest by operations."""

    generate_flops: float
    generate_bytes: float
    score_flops: float
    update_flops: float
    sent_bytes: float

    @property
    def flops(self) -> float:
        """All operations of a step."""
        return self.generate_flops + self.score_flops + self.update_flops


def step_cost(
    shape: Shape,
    batch: BatchPlan,
    launch: Launch,
    prompt_length: int,
    completion_length: int,
    reference: bool = True,
    checkpointing: bool = True,
) -> StepCost:
    """Cost of a step in which every row has these lengths.

    A forward takes 2 operations per weight and token, and attention 4 x layers x hidden x (mean length of what a token
    looks back on). A backward takes twice that for the gradients of weights and activations, half of it where weights
    are frozen. Recomputing activations takes one more forward.
    """
    accumulation, per_device = batch.gradient_accumulation_steps, batch.per_device_train_batch_size
    rows, length = accumulation * per_device, prompt_length + completion_length
    tokens = rows * length
    forward = tokens * (2 * shape.num_parameters + 4 * shape.num_layers * shape.hidden_size * length / 2)
    trained = shape.num_trained / shape.num_parameters
    passes = 1 + (1 + trained) + (1 if checkpointing else 0)
    scoring = 2 if reference else 1  # certainty comes with the old log-probabilities, where those are needed
    cached = shape.kv_bytes_per_token * rows * (prompt_length + completion_length / 2)
    return StepCost(
        generate_flops=forward,
        generate_bytes=completion_length * (shape.weight_bytes + cached),
        score_flops=scoring * forward,
        update_flops=passes * forward,
        sent_bytes=_sent(shape, launch, accumulation, scoring),
    )


def _sent(shape: Shape, launch: Launch, accumulation: int, scoring: int) -> float:
    """Bytes that each process sends in a step; N processes share (N - 1) / N of a ring's whole."""
    share = (launch.num_processes - 1) / launch.num_processes
    itemsize = shape.weight_bytes / shape.num_parameters
    gradients, weights = shape.num_trained * itemsize, float(shape.weight_bytes)
    if launch.strategy == "ddp":
        return 2 * gradients * share  # one all-reduce: reduce-scatter and all-gather
    if launch.strategy == "zero2":
        return (accumulation * gradients + gradients) * share  # gradients are scattered in every micro-batch
    if launch.strategy in ("zero3", "fsdp2"):
        gathers = accumulation * (2 + scoring) + 1  # forward, backward and scoring of each micro-batch; generation
        return (gathers * weights + accumulation * gradients) * share
    return 0.0


def seconds(
    cost: StepCost, device: Device, link: float = 100e9, efficiency: float = EFFICIENCY
) -> tuple[float, float, float, float]:
    """Seconds of generation, scoring, update and communication of a step; they are not overlapped here.

    Args:
        cost: of the step.
        device: its peak rates.
        link: bytes per second between processes (NVLink: 300e9 and more; 8 x 400 Gb/s between machines: 50e9 a GPU).
        efficiency: share of the peaks that is reached.
    """
    flops, bandwidth = device.flops * efficiency, device.bandwidth * efficiency
    generate = max(cost.generate_flops / flops, cost.generate_bytes / bandwidth)
    return generate, cost.score_flops / flops, cost.update_flops / flops, cost.sent_bytes / (link * efficiency)


def this_cpu() -> Device:
    """Rates of this machine's CPU with the threads torch has, measured in a fraction of a second."""
    size = 512
    a, b = torch.randn(2, size, size)
    block = torch.zeros(16_000_000)
    return Device(
        flops=2 * size**3 / _best(lambda: a @ b),
        bandwidth=block.nbytes / _best(block.sum),
        memory=0.0,
    )


def _best(work: Any, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
