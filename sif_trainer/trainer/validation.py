"""Online validation: measure held-out accuracy at every checkpoint, keep the best one; never choose by the reward.

A checkpoint is saved first, marked complete, and only then measured, so that a failing evaluation loses no weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sif_trainer.runs.records import Records
from sif_trainer.trainer.checkpoints import checkpoint_path, copy_model


class Validation(TrainerCallback):
    """Measures the policy before the first step and at each checkpoint; copies the best checkpoint's model to `best/`.

    Args:
        measure: from the live model to numbers, `accuracy` among them; must leave all random states as they were.
        folder: the run's; `validation.jsonl` and `best/` are written there.
        is_main: whether this process writes. Every process measures, because a sharded model needs them all.
    """

    def __init__(self, measure: Callable[[Any], Mapping[str, Any]], folder: Path, is_main: bool) -> None:
        self.measure = measure
        self.folder = folder
        self.records = Records(folder / "validation.jsonl", writer=is_main)
        self._is_main = is_main

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Measure the starting point, or a checkpoint that a kill left unmeasured."""
        self.records.keep(lambda record: record["step"] <= state.global_step)
        if state.global_step not in {record["step"] for record in self.records}:
            self._measure(state.global_step, model)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Measure the checkpoint that was just written."""
        self._measure(state.global_step, model)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Measure the end where no checkpoint was saved there."""
        if state.global_step not in {record["step"] for record in self.records}:
            self._measure(state.global_step, model)

    def _measure(self, step: int, model: Any) -> None:
        earlier = [record["accuracy"] for record in self.records if record["step"] > 0]
        result = dict(self.measure(model))
        self.records.append({"step": step, **result})
        if not self._is_main:
            return
        shown = " ".join(f"{name} {value:.3f}" for name, value in result.items() if isinstance(value, float))
        print(f"step {step} | validation: {shown}", file=sys.stderr, flush=True)
        checkpoint = checkpoint_path(self.folder, step)
        if step and checkpoint.exists() and result["accuracy"] > max(earlier, default=-1.0):
            copy_model(checkpoint, self.folder / "best")
