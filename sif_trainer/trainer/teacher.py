"""The slowly moving teacher of Co-rewarding II: a moving average of the policy's trainable weights.

It costs one more copy of them, and one more generation per step. Its weights are saved with every checkpoint, so that
a resumed run goes on with the same teacher. Plain data parallelism only: a sharded or remote engine would generate
with the policy's own weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.checkpoints import checkpoint_path

FILE = "teacher.pt"


class Teacher(TrainerCallback):
    """Follows `model`: after each step, teacher = (1 - rate) teacher + rate policy, the rate falling by a cosine.

    Args:
        model: the unwrapped policy.
        rate: at the first step.
        rate_end: at the last step.
        is_main: whether this process writes the checkpoint's file.
    """

    def __init__(self, model: nn.Module, rate: float, rate_end: float, is_main: bool) -> None:
        self._policy = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._weights = {name: p.detach().clone() for name, p in self._policy.items()}
        self._rate, self._rate_end, self._is_main = rate, rate_end, is_main

    @contextmanager
    def in_place_of_policy(self) -> Iterator[None]:
        """Within the block, the policy's module holds the teacher's weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self._policy.items():
            parameter.data, self._weights[name] = self._weights[name], parameter.data

    def load(self, checkpoint: Path) -> None:
        """Go on with the teacher that was saved with a checkpoint.

        Raises:
            UserError: when the checkpoint holds none; from the policy's weights it cannot be told.
        """
        file = checkpoint / FILE
        if not file.is_file():
            raise UserError(
                f"{checkpoint} holds no {FILE}, the teacher's weights, without which co_rewarding_ema would go on as "
                "another run; put the file back, remove the checkpoint to go on from an earlier one, or start anew"
            )
        for name, value in torch.load(file, map_location="cpu", weights_only=True).items():
            self._weights[name].copy_(value)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Move towards the policy."""
        done = min(state.global_step / max(state.max_steps, 1), 1.0)
        rate = self._rate_end + (self._rate - self._rate_end) * (1 + math.cos(math.pi * done)) / 2
        with torch.no_grad():
            for name, parameter in self._policy.items():
                self._weights[name].lerp_(parameter, rate)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write the teacher beside the checkpoint's other state."""
        if self._is_main:
            folder = checkpoint_path(Path(args.output_dir), state.global_step)
            torch.save(self._weights, folder / FILE)
