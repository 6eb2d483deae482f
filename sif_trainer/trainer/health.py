"""Watches a run for the known signs of collapse, without an answer key, and warns, stops or rolls back.

    sif train … health=rollback

A policy that is rewarded for its own certainty can become certain of nothing in particular: certainty rises together
with its spread within a response, words and n-grams repeat, entropy and length leave their range. Overconfidence,
itself two signs in one, raises the alarm when it lasts for some steps; of the others it takes two at once, because
each alone can be what the method does. docs/footguns.md has a run of each kind.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sif_trainer.runs.records import Records
from sif_trainer.trainer.checkpoints import checkpoint_path, copy_model

THRESHOLDS: dict[str, float] = {
    "certainty_rise": 1.1,  # of its level at the start; with it, the spread within a response must have risen:
    "variance_rise": 1.25,
    "top_word_rise": 1.5,  # share of the most frequent word, of its level at the start
    "repetition_rise": 0.1,  # repeated n-grams, above their rate at the start
    "entropy_fall": 0.4,  # of its level at the start
    "length_fall": 0.5,
    "length_rise": 2.0,
    "least_keep_rate": 0.02,
    "most_kl": 1.0,  # mean of the k3 estimator per token, nats
}


def signs_of_collapse(
    history: Sequence[Mapping[str, Any]], window: int, thresholds: Mapping[str, float] = THRESHOLDS
) -> dict[str, str]:
    """Compare the last `window` logged steps with the first; return the signs that are on, each with its numbers.

    Args:
        history: the run's metrics, oldest first (docs/metrics.md).
        window: steps on either side; with fewer than two windows of history nothing can be said yet.
        thresholds: see `THRESHOLDS`.
    """
    if len(history) < 2 * window:
        return {}
    first, last = _Means(history[:window]), _Means(history[-window:])
    t = thresholds
    signs = {}

    def sign(name: str, on: bool, what: str) -> None:
        if on:
            signs[name] = what

    certainty, variance = (
        (first[f"sif/{name}"], last[f"sif/{name}"]) for name in ("certainty_mean", "certainty_variance")
    )
    sign(
        "overconfidence",
        certainty[1] > t["certainty_rise"] * certainty[0] and variance[1] > t["variance_rise"] * variance[0],
        f"certainty {_change(*certainty)}, its variance {_change(*variance)}",
    )
    word = first["sif/top_word_share"], last["sif/top_word_share"]
    sign("top_word", word[1] > t["top_word_rise"] * word[0], f"top word share {_change(*word)}")
    repeated = first["sif/repetition_rate"], last["sif/repetition_rate"]
    more = repeated[1] > repeated[0] + t["repetition_rise"]
    sign("repetition", more, f"repetition {_change(*repeated)}")
    entropy = first["sif/entropy"], last["sif/entropy"]
    sign("entropy", entropy[1] < t["entropy_fall"] * entropy[0], f"entropy {_change(*entropy)}")
    length = first["sif/length"], last["sif/length"]
    outside = not t["length_fall"] * length[0] <= length[1] <= t["length_rise"] * length[0]
    sign("length", outside, f"length {_change(*length)}")
    sign("keep_rate", last["sif/keep_rate"] < t["least_keep_rate"], f"keep rate {last['sif/keep_rate']:.3f}")
    sign("kl", last["kl"] > t["most_kl"], f"KL {last['kl']:.2f} nats per token")
    return signs


class Health(TrainerCallback):
    """Applies `signs_of_collapse` after every logged step and acts on an alarm.

    Args:
        action: 'warn' prints, 'stop' ends training, 'rollback' ends it and takes the last healthy checkpoint.
        folder: the run's; alarms go to `health.jsonl`, the last checkpoint without a sign to `healthy/`.
        is_main: whether this process writes.
        window: logged steps that are averaged.
        num_signs: signs that must be on at once, unless overconfidence is one.
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
        alarming = "overconfidence" in self._signs or len(self._signs) >= self.num_signs
        self._steps_on = self._steps_on + 1 if alarming else 0

    def _tell(self, step: int) -> None:
        if self._is_main:
            then = {
                "warn": "training goes on",
                "stop": "training stops",
                "rollback": "training stops; last/ will be the last healthy checkpoint",
            }[self.action]
            print(f"step {step} | signs of collapse: {'; '.join(self._signs.values())}; {then}", file=sys.stderr)


class _Means:
    """Means over some logged steps; NaN, which makes every comparison false, where nothing was logged."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = records

    def __getitem__(self, name: str) -> float:
        values = [record[name] for record in self._records if record.get(name) is not None]
        return sum(values) / len(values) if values else float("nan")


def _change(before: float, after: float) -> str:
    return f"{before:.3g} -> {after:.3g}"
