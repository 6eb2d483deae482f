"""Watches a run for the known signs of collapse, without an answer key, and warns, stops or rolls back.

    sif train … health=rollback

A policy that is rewarded for its own certainty can become certain of nothing in particular: certainty rises together
with its spread within a response, words and n-grams repeat, entropy and length leave their range. Overconfidence,
itself two signs in one, raises the alarm when it lasts for some steps, and so does an engine that drifts away from the
trainer; of the others it takes two at once, because each alone can be what the method does. docs/footguns.md has a run
of each kind.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sif_trainer.runs.records import Records
from sif_trainer.trainer.checkpoints import checkpoint_path, copy_model
from sif_trainer.trainer.signs import THRESHOLDS, signs_of_collapse

ALONE = {"overconfidence", "engine", "engine_weights"}
"""Signs of which one is enough."""


class Health(TrainerCallback):
    """Applies `signs_of_collapse` after every logged step and acts on an alarm.

    Args:
        action: 'warn' prints, 'stop' ends training, 'rollback' ends it and takes the last healthy checkpoint.
        folder: the run's; alarms go to `health.jsonl`, the last checkpoint without a sign to `healthy/`.
        is_main: whether this process writes.
        window: logged steps that are averaged.
        num_signs: signs that must be on at once, unless one of `ALONE` is.
        patience: logged steps in a row for which they must.
        thresholds: replaces some of `THRESHOLDS`.
    """

    def __init__(
        self,
        action: str,
        folder: Path,
        is_main: bool,
        window: int = 10,
        num_signs: int = 2,
        patience: int = 3,
        thresholds: Mapping[str, float] | None = None,
    ) -> None:
        self.action, self.folder, self._is_main = action, folder, is_main
        self.window, self.num_signs, self.patience = window, num_signs, patience
        self.thresholds = {**THRESHOLDS, **(thresholds or {})}
        self.alarms = Records(folder / "health.jsonl", writer=is_main)
        self.collapsed_at: int | None = None
        self._history: list[Mapping[str, Any]] = []
        self._signs: dict[str, str] = {}
        self._steps_on = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take up the history of a run that goes on."""
        self.alarms.keep(lambda record: record["step"] <= state.global_step)
        self._history = []
        for record in Records(self.folder / "metrics.jsonl", writer=False):
            if record["step"] <= state.global_step:
                self._observe(record)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Look at the step that was just logged; act when the signs have been on for long enough."""
        if not logs or "sif/certainty_mean" not in logs:
            return
        self._observe(logs)
        if self._steps_on < self.patience:
            return
        if self._steps_on == self.patience:
            self.alarms.append({"step": state.global_step, "action": self.action, "signs": self._signs})
            self._tell(state.global_step)
        if self.action in ("stop", "rollback"):
            self.collapsed_at = state.global_step
            control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Remember the checkpoint as healthy while no sign is on."""
        if self.action == "rollback" and not self._signs and self._is_main:
            copy_model(checkpoint_path(self.folder, state.global_step), self.folder / "healthy")

    def _observe(self, record: Mapping[str, Any]) -> None:
        self._history.append(record)
        self._signs = signs_of_collapse(self._history, self.window, self.thresholds)
        alarming = bool(ALONE & self._signs.keys()) or len(self._signs) >= self.num_signs
        self._steps_on = self._steps_on + 1 if alarming else 0

    def _tell(self, step: int) -> None:
        if self._is_main:
            then = {
                "warn": "training goes on",
                "stop": "training stops",
                "rollback": "training stops; last/ will be the last healthy checkpoint",
            }[self.action]
            print(f"step {step} | signs of collapse: {'; '.join(self._signs.values())}; {then}", file=sys.stderr)
