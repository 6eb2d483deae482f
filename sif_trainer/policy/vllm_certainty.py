"""Certainty from inside vLLM: a logits processor that changes nothing and records what it sees.

    recording = Recording()
    choose_runner()
    llm = vllm.LLM(..., logits_processors=[certainty_processor(recording)])
    outputs = llm.generate(...)
    certainty, entropy = recording.scores(prompt_token_ids, completion_token_ids)

    pytest tests/policy/test_vllm_certainty.py         # with the extra vllm; its CPU build will do

The processor sees fp32 logits before temperature, penalties, min-p, top-k and top-p, and divides them by the
request's temperature itself (greedy: by 1): it records the distribution of `certainty/formula.py`, whatever is cut
from it later. What vLLM masks before, it cannot see behind, so such requests are refused (`vllm_engine.MASKS`). The
engine must live in this process, as TRL's colocated one does; tensor-parallel ranks each see all logits and record the
same.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from sif_trainer.certainty.formula import entropy, self_certainty
from sif_trainer.certainty.recording import Recording
from sif_trainer.policy.vllm_engine import MASKS
from sif_trainer.runs.errors import UserError

GREEDY = 1e-5
"""Temperatures below this are greedy for vLLM."""
TILE_ROWS = 16  # requests whose logits are copied at once: 16 x 152,000 x 4 bytes are 10 MB


class CertaintyProcessor(LogitsProcessor):
    """Records certainty and entropy of every row of logits; made by `certainty_processor`."""

    recording: ClassVar[Recording]
    in_this_process: ClassVar[bool] = False

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        type(self).in_this_process = True
        self._device = device
        self._temperature = torch.ones(0, 1, device=device)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose logits are masked before they can be seen (called by vLLM)."""
        if masks := [name for name in MASKS if getattr(sampling_params, name, None)]:
            raise ValueError(f"no certainty under {', '.join(masks)}: vLLM masks logits before they can be recorded")

    def is_argmax_invariant(self) -> bool:
        """No, though nothing is changed: those that are come after the temperature, and not for greedy requests."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch (called by vLLM before each forward)."""
        if batch_update is None:
            return
        self.recording.update(
            batch_update.removed,
            [
                (slot, prompt, output, 1.0 if params.temperature < GREEDY else params.temperature)
                for slot, params, prompt, output in batch_update.added
            ],
            [(start, end, way == MoveDirectionality.SWAP) for start, end, way in batch_update.moved],
        )
        self._temperature = torch.tensor(self.recording.temperatures, device=self._device).unsqueeze(-1)

    def apply(self, logits: Tensor) -> Tensor:
        """Record a step, (number of requests, V) fp32 logits, and hand them on as they are."""
        tiles = zip(logits.split(TILE_ROWS), self._temperature.split(TILE_ROWS), strict=True)
        scores = [_scores(rows / temperature) for rows, temperature in tiles]
        self.recording.record(*torch.cat(scores, dim=1))
        return logits


def _scores(logits: Tensor) -> Tensor:
    return torch.stack([self_certainty(logits), entropy(logits)])


def certainty_processor(recording: Recording) -> type[CertaintyProcessor]:
    """A processor class for one engine, which writes into `recording`."""
    return type("CertaintyProcessor", (CertaintyProcessor,), {"recording": recording, "__module__": __name__})


def choose_runner() -> None:
    """Before an engine with a processor is made: have it run in this process, by vLLM's first model runner.

    The second has another interface for processors, and another batch. Both variables hold for the whole process,
    because vLLM reads them again while it runs. Raises UserError when the user has set them otherwise.
    """
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_USE_V2_MODEL_RUNNER"):
        if os.environ.setdefault(name, "0") != "0":
            raise UserError(f"{name}={os.environ[name]} in the environment: certainty from inside vLLM needs 0")


def check_recorded(processor: type[CertaintyProcessor]) -> None:
    """After the engine was made: raise UserError when it does not use the processor."""
    if not processor.in_this_process:
        raise UserError(
            "vLLM took no logits processor into its engine in this process, so certainty cannot be recorded there; "
            "take it from the model"
        )
