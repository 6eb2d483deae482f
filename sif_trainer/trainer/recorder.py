"""Local records of a training run: metrics.jsonl, a sample of completions, one health line per step.

They are written whatever tracker is named in `report_to`, and cut back to the checkpoint when a run is resumed, so
that a resumed run's records read like a straight run's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import Records
from sif_trainer.trainer.checkpoints import COMPLETE, checkpoint_path
from sif_trainer.trainer.signs import LOGP_DIFFERENCE

MOST_FIRST_DIFFERENCE = 0.5  # nats per token


class Recorder(TrainerCallback):
    """Writes what `SIFTrainer` logs; marks a checkpoint complete once all of it is on disk."""

    def __init__(self, folder: Path, is_main: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.metrics = Records(folder / "metrics.jsonl", writer=is_main)
        self.samples = Records(folder / "samples.jsonl", writer=is_main)
        self._is_main = is_main
        self._started = 0.0
        self._first_step = 0
        self._steps_without_eligible = 0
        self._engine_checked = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Forget records later than the checkpoint that the run goes on from."""
        for records in (self.metrics, self.samples):
            records.keep(lambda record: record["step"] <= state.global_step)
        self._started, self._first_step = time.monotonic(), state.global_step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append a record and print the health line; stop when no response has been eligible for too long."""
        if logs is None or "step_time" not in logs:  # a summary of the run, or an evaluation
            return
        add_time_shares(logs)
        self.metrics.append({"step": state.global_step, **logs})
        if self._is_main:
            print(self.health_line(logs, state), file=sys.stderr, flush=True)
        if not self._engine_checked and LOGP_DIFFERENCE in logs:
            self._engine_checked = True
            check_first_difference(logs[LOGP_DIFFERENCE])
        if "sif/eligible_rate" in logs:  # a step that uses a generated batch once more has no vote of its own
            self._check_eligible(args, logs)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Mark the checkpoint: one without the mark was cut off by a kill and is passed over on resume."""
        if self._is_main:
            (checkpoint_path(Path(args.output_dir), state.global_step) / COMPLETE).touch()

    def health_line(self, logs: dict[str, Any], state: TrainerState) -> str:
        """Return one readable line: what was eligible and kept, what the policy looks like, where the time went."""
        done = state.global_step - self._first_step
        eta = (time.monotonic() - self._started) / max(done, 1) * (state.max_steps - state.global_step)
        voted = [
            f"eligible {_percent(logs.get('sif/eligible_rate'))} kept {_percent(logs.get('sif/keep_rate'))}",
            f"winners/group {_number(logs.get('sif/winners_per_group'))}",
            f"certainty {_number(logs.get('sif/certainty_mean'))}",
            f"entropy {_number(logs.get('sif/entropy'))}",
            f"length {_number(logs.get('sif/length'), 0)}",
            f"|A| {_number(logs.get('sif/advantage_abs'))}",
        ]
        parts = [f"step {state.global_step}/{state.max_steps}"]
        parts += voted if "sif/eligible_rate" in logs else ["the last batch once more"]
        parts.append(f"grad {_number(logs.get('grad_norm'))}")
        if "kl" in logs:
            parts.append(f"kl {_number(logs['kl'], 4)}")
        for key, value in logs.items():
            if key.startswith("monitor/") and key.endswith("/all"):
                kept = logs.get(key.removesuffix("all") + "kept")
                parts.append(f"{key.split('/')[1]} {_number(value)} (kept {_number(kept)})")
        if "time/generate_share" in logs:
            shares = " ".join(
                f"{name} {_percent(logs[f'time/{name}_share'])}" for name in ("generate", "score", "update")
            )
            parts.append(shares)
        parts.append(f"ETA {int(eta // 60)}:{int(eta % 60):02d}")
        return " | ".join(parts)

    def _check_eligible(self, args: TrainingArguments, logs: dict[str, Any]) -> None:
        self._steps_without_eligible = 0 if logs["sif/eligible_rate"] else self._steps_without_eligible + 1
        limit = getattr(args, "max_steps_without_update", 0)
        if limit and self._steps_without_eligible >= limit:
            length = logs["sif/length"]
            raise UserError(
                f"no response was eligible in {limit} logged steps: they are {length:.0f} tokens long on average, "
                f"the windows need {args.windows.min_length}; lower window_size, min_stride or num_windows (here, "
                f"say, window_size={max(int(length / 6), 1)} min_stride={max(int(length / 20), 1)}), or set "
                "max_steps_without_update=0 to go on"
            )


def check_first_difference(difference: float) -> None:
    """Raise UserError when vLLM's log-probabilities are, from the start, not those of the trainer's weights.

    `difference` is the mean over tokens of its absolute value, nats; rounding makes a few hundredths.
    """
    if difference > MOST_FIRST_DIFFERENCE:
        raise UserError(
            f"the log-probabilities of vLLM and of the trainer differ by {difference:.2f} nats per token in the first "
            "step: vLLM answers with other weights, or at another temperature. Start the server by "
            "launch/vllm_server.sh with the same recipe"
        )


def add_time_shares(logs: dict[str, Any]) -> None:
    """Replace the seconds of generating and scoring by shares of `step_time`; the rest is the update."""
    total = logs.get("step_time")
    if total:
        generate, score = logs.get("time/generate") or 0.0, logs.get("time/score") or 0.0
        logs["time/generate_share"] = generate / total
        logs["time/score_share"] = score / total
        logs["time/update_share"] = max(1 - (generate + score) / total, 0.0)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
