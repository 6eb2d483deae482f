"""Whether the colocated engine holds the trainer's weights: both sides' fingerprints, at every transfer.

    watch = EngineWeights(trainer.vllm_generation)
    trainer.vllm_generation.sync_weights()
    watch.difference                                  # 0.0: equal to the last bit in the engine's precision

A fingerprint is a sample of every parameter that both sides have by one name and shape (vLLM fuses some, which have no
counterpart). The trainer's is taken of what TRL sends, so that adapters are merged and shards gathered. A server's
weights cannot be read: there, and for what is fused, the log-probabilities of drawn tokens are compared
(`sampling/sampling_logp_difference/mean`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from sif_trainer.runs.errors import UserError

SAMPLE = 4096  # numbers per parameter
MOST_AT_FIRST = 1e-3
"""Relative difference after the first transfer beyond which the two are not the same model."""
Samples = dict[tuple[str, torch.Size], Tensor]
"""Name and shape of a parameter -> some of its numbers."""


class EngineWeights:
    """Watches TRL's transfers of weights to its colocated engine.

    Raises:
        UserError: in the first transfer, when the engine holds something else than what it was sent.
    """

    def __init__(self, generation: Any) -> None:
        self.difference: float | None = None
        self._generation = generation
        self._parameters, self._sync = generation._iter_named_params, generation.sync_weights
        generation.sync_weights = self._watched_sync

    def _watched_sync(self) -> None:
        sent: Samples = {}

        def parameters() -> Iterator[tuple[str, Tensor]]:
            for name, parameter in self._parameters():
                sent[name, parameter.shape] = _sample(parameter)
                yield name, parameter

        self._generation._iter_named_params = parameters
        try:
            self._sync()
        finally:
            self._generation._iter_named_params = self._parameters
        model = self._generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
        first = self.difference is None
        self.difference = weight_difference(sent, {(n, p.shape): _sample(p) for n, p in model.named_parameters()})
        if first and self.difference is not None and self.difference > MOST_AT_FIRST:
            raise UserError(
                f"after the first transfer vLLM's weights differ from the trainer's by {self.difference:.2g} of their "
                "size: it would answer with another model; check vllm_model_impl and the versions of trl and vllm"
            )


def weight_difference(sent: Samples, held: Samples) -> float | None:
    """Return the largest relative difference of a sample, in the precision of `held`; None if they share none."""
    largest = None
    for key in sent.keys() & held.keys():
        theirs = held[key]
        if theirs.dtype not in (torch.float32, torch.bfloat16, torch.float16):  # quantised
            continue
        ours = sent[key].to(theirs).float()
        size = ours.norm().clamp(min=torch.finfo(torch.float32).tiny)
        difference = float((ours - theirs.float()).norm() / size)
        largest = difference if largest is None else max(largest, difference)
    return largest


def _sample(parameter: Tensor) -> Tensor:
    flat = parameter.detach().reshape(-1)
    return flat[:: max(len(flat) // SAMPLE, 1)].clone()
