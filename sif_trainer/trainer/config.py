"""`SIFConfig`: the paper's settings, and every TRL default that the method leans on, pinned.

    SIFConfig(output_dir="runs/mine", num_windows=10, window_size=100, min_stride=50)

Sources in the help texts: "paper" means stated there (Method, appendices B and C), "ours" a choice where the paper is
silent. TRL's other fields (vLLM, LoRA, logging, …) keep their meaning; docs/recipes.md lists what a recipe may set.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from transformers.integrations import get_reporting_integration_callbacks
from trl import GRPOConfig

from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.trainer.batch import plan_batch
from sif_trainer.trainer.engine_certainty import check_engine_certainty
from sif_trainer.trainer.signs import THRESHOLDS

SUPPORTED_LOSSES = ("grpo", "dr_grpo", "dapo")


def _setting(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass
class SIFConfig(FeedbackSettings, GRPOConfig):
    """Settings of `SIFTrainer`: all of `GRPOConfig` and `FeedbackSettings`, with the fields below added or pinned.

    Raises:
        ValueError: for a combination under which the method cannot work, with the reason and the nearest valid value.
    """

    # --- the update (the feedback and its options: feedback/settings.py) -----------------------------------------
    normalize_by: Literal["kept", "all"] = _setting(
        "kept",
        "Divide the summed loss of a step by its kept responses or by all its responses (ours; the paper is silent). "
        "'all' shrinks the step by the keep rate.",
    )

    # --- the batch ----------------------------------------------------------------------------------------------
    prompts_per_step: int | None = _setting(
        None, "Prompts per optimizer step over all processes (paper: 64, the default)."
    )
    num_generations: int = _setting(8, "G, responses per prompt (paper: 8).")
    per_device_train_batch_size: int | None = _setting(
        None, "Completions per device and forward pass; derived (at most 8) unless given."
    )
    gradient_accumulation_steps: int | None = _setting(None, "Micro-batches per step; derived unless given.")

    # --- optimisation -------------------------------------------------------------------------------------------
    learning_rate: float = _setting(3e-6, "Peak learning rate (paper: 3e-6).")
    lr_scheduler_type: str = _setting("cosine", "Schedule of the learning rate (paper: cosine).")
    warmup_steps: float = _setting(0.1, "Warm-up: steps, or below 1 a fraction of all, rounded up (paper: 11 of 115).")
    num_train_epochs: float = _setting(1.0, "Epochs over the prompts (paper: 1).")
    weight_decay: float = _setting(0.01, "AdamW's weight decay (ours: verl's default; the paper is silent).")
    max_grad_norm: float = _setting(1.0, "Gradient clipping by norm (ours: verl's default; the paper is silent).")
    beta: float = _setting(0.005, "Coefficient of the KL term in the loss, k3 estimator (paper: 0.005).")
    epsilon: float = _setting(0.2, "Clipping range of the ratio (paper: 0.2).")
    num_iterations: int = _setting(1, "Optimizer passes per generated batch (paper: 1).")
    loss_type: str = _setting("grpo", "Per-response token mean (paper); 'dr_grpo' and 'dapo' also work with the mask.")
    scale_rewards: str = _setting("group", "Advantages are standardised within the group (paper).")
    importance_sampling_level: str = _setting("token", "Ratio per token (paper).")
    use_bias_correction_kl: bool = _setting(
        False, "Pinned: TRL's default True multiplies k3 by the ratio, which changes the gradient even on policy."
    )
    top_entropy_quantile: float = _setting(1.0, "Pinned: all tokens take part in the loss (paper).")

    # --- rollouts -----------------------------------------------------------------------------------------------
    temperature: float = _setting(1.0, "Sampling temperature; certainty is computed at the same one (paper: 1).")
    top_p: float = _setting(1.0, "Pinned: the whole distribution is sampled.")
    top_k: int = _setting(0, "Pinned: the whole distribution is sampled (0 is off).")
    min_p: float | None = _setting(None, "Pinned: the whole distribution is sampled.")
    max_completion_length: int | None = _setting(3072, "Longest response, tokens (paper: 3,072).")
    mask_truncated_completions: bool = _setting(
        False, "Truncated responses vote like any other (paper); True makes them not eligible."
    )
    disable_dropout: bool = _setting(True, "Pinned: dropout would make the certainty of a response random.")
    vllm_importance_sampling_mode: str = _setting(
        "token_truncate",
        "Pinned: TRL's sequence_mask gives long responses weight 0, which are the only eligible ones.",
    )

    certainty_source: Literal["model", "engine"] = _setting(
        "model",
        "Where certainty comes from: a pass of the model, or colocated vLLM as it generates (docs/launch.md); that "
        "saves a pass only with vllm_importance_sampling_correction=false.",
    )

    # --- bookkeeping --------------------------------------------------------------------------------------------
    shuffle_dataset: bool | None = _setting(True, "Prompts are shuffled each epoch, seeded by seed and epoch.")
    logging_steps: float = _setting(1, "Steps between two records in metrics.jsonl and two health lines.")
    report_to: str | list[str] | None = _setting(  # noqa: RUF009
        "none", "Trackers besides the local records; nothing is sent unless named."
    )
    save_steps: float = _setting(10, "Steps between resumable checkpoints; moved to where a generated batch ends.")
    save_total_limit: int | None = _setting(1, "Resumable checkpoints that are kept.")
    samples_every: int = _setting(10, "Steps between samples of completions in samples.jsonl; 0 writes none.")
    num_sampled_groups: int = _setting(2, "Prompt groups per sample of completions.")
    health: Literal["off", "warn", "stop", "rollback"] = _setting(
        "warn",
        "On signs of collapse (docs/footguns.md): warn, stop, or stop and return to the last healthy checkpoint.",
    )
    health_thresholds: dict[str, float] | None = _setting(  # noqa: RUF009
        None, "Replaces thresholds of trainer/health.py by name."
    )
    max_steps_without_update: int = _setting(
        20, "Stop with advice after this many consecutive steps in which no response was eligible; 0 never stops."
    )

    def __post_init__(self) -> None:
        FeedbackSettings.__post_init__(self)
        self._check_method()
        self._plan_batch()
        if self.bf16 is None and not self.fp16:  # type: ignore[has-type]
            self.bf16 = torch.cuda.is_available()
        GRPOConfig.__post_init__(self)
        if not isinstance(self.chat_template_kwargs, dict | None):
            raise ValueError(f"chat_template_kwargs={self.chat_template_kwargs!r} must be a mapping")
        try:
            get_reporting_integration_callbacks(self.report_to)  # the trainer asks it for them, much later
        except ValueError as error:
            raise ValueError(f"report_to: {error}") from error
        self._align_saves()

    def _check_method(self) -> None:
        feedback, min_length = self.find_rule(), self.windows.min_length
        if (
            feedback.needs_windows
            and self.max_completion_length is not None
            and min_length > self.max_completion_length
        ):
            raise ValueError(
                f"no response could ever be eligible: the windows need window_size + min_stride * (num_windows - 1) = "
                f"{self.window_size} + {self.min_stride} * {self.num_windows - 1} = {min_length} tokens, but "
                f"max_completion_length={self.max_completion_length}; lower window_size or min_stride, or raise "
                "the limit"
            )
        if self.num_trained is not None and self.num_generations % self.num_trained:
            raise ValueError(
                f"num_trained={self.num_trained} must divide num_generations={self.num_generations}, the responses "
                "that vote (TTRL: 32 of 64)"
            )
        if "paired" in feedback.reads and self.prompts_per_step is not None and self.prompts_per_step % 2:
            raise ValueError(
                f"prompts_per_step={self.prompts_per_step} must be even: feedback='{self.feedback}' takes each "
                "question together with its rephrasing"
            )
        if self.loss_type not in SUPPORTED_LOSSES:
            raise ValueError(
                f"loss_type='{self.loss_type}' does not work with an update mask: "
                + _LOSS_REASONS.get(self.loss_type, "its denominator has not been checked against dropped responses")
                + f"; choose one of {', '.join(SUPPORTED_LOSSES)}"
            )
        if self.normalize_by not in ("kept", "all"):
            raise ValueError(f"normalize_by='{self.normalize_by}' must be 'kept' or 'all'")
        if self.normalize_by == "kept" and (self.entropy_coef != 0 or self.use_adaptive_entropy):
            raise ValueError(
                "an entropy bonus would be scaled by the keep rate under normalize_by='kept'; "
                "set entropy_coef=0 and use_adaptive_entropy=False, or normalize_by='all'"
            )
        if self.certainty_source not in ("model", "engine"):
            raise ValueError(f"certainty_source='{self.certainty_source}' must be 'model' or 'engine'")
        check_engine_certainty(self)
        if self.health not in ("off", "warn", "stop", "rollback"):
            raise ValueError(f"health='{self.health}' must be 'off', 'warn', 'stop' or 'rollback'")
        for name, holds, rule in (
            ("learning_rate", 0 <= self.learning_rate < math.inf, "must be finite and not negative"),
            ("beta", self.beta >= 0, "must not be negative"),
            ("epsilon", self.epsilon > 0, "must be positive"),
            ("weight_decay", self.weight_decay >= 0, "must not be negative"),
            ("temperature", 0 < self.temperature < math.inf, "must be positive and finite: responses are sampled"),
            ("top_k", self.top_k >= 0, "must not be negative; 0 is off"),
            ("top_p", 0 < self.top_p <= 1, "must lie in (0, 1]"),
            ("num_iterations", self.num_iterations >= 1, "must be at least 1"),
            (
                "num_train_epochs",
                self.num_train_epochs > 0 or self.max_steps > 0,
                "trains nothing; set max_steps, too",
            ),
        ):
            if not holds:
                raise ValueError(f"{name}={getattr(self, name)} {rule}")
        for name in self.health_thresholds or {}:
            if name not in THRESHOLDS:
                raise ValueError(f"health_thresholds: no threshold '{name}'; choose from {', '.join(THRESHOLDS)}")
        if self.scale_rewards not in ("group", True):
            raise ValueError(
                f"scale_rewards={self.scale_rewards!r}: the method standardises within the group; use 'group'"
            )

    def _plan_batch(self) -> None:
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
        prompts = self.prompts_per_step
        if prompts is None and self.per_device_train_batch_size and self.gradient_accumulation_steps:
            rows = self.per_device_train_batch_size * self.gradient_accumulation_steps * world_size
            prompts = max(rows // self.num_generations, 1)
        plan = plan_batch(
            64 if prompts is None else prompts,
            self.num_generations,
            world_size,
            self.per_device_train_batch_size,
            self.gradient_accumulation_steps,
        )
        self.prompts_per_step = plan.prompts_per_step
        self.per_device_train_batch_size = plan.per_device_train_batch_size
        self.gradient_accumulation_steps = plan.gradient_accumulation_steps
        self.batch_plan = plan
        one_step = self.steps_per_generation in (None, plan.gradient_accumulation_steps) and (
            self.generation_batch_size in (None, plan.prompts_per_step * plan.num_generations)
        )
        if not one_step and self.normalize_by == "kept" and self.loss_type != "dapo":
            raise ValueError(
                "normalize_by='kept' counts the kept responses of one optimizer step, so a generated batch must be "
                f"one step: leave steps_per_generation out (it would be {plan.gradient_accumulation_steps}), or use "
                "loss_type='dapo' or normalize_by='all'"
            )

    def _align_saves(self) -> None:
        """A checkpoint inside a generated batch cannot be resumed exactly: the batch is not saved with it."""
        micro_steps = self.steps_per_generation * self.num_iterations
        boundary = micro_steps // math.gcd(micro_steps, self.batch_plan.gradient_accumulation_steps)
        if boundary > 1 and self.save_strategy == "steps" and 0 < self.save_steps < 1:
            raise ValueError(
                f"save_steps={self.save_steps} is a fraction of all steps, which may fall inside a generated batch of "
                f"{boundary} steps; give a number of steps"
            )
        if boundary > 1 and self.save_strategy == "steps" and self.save_steps % boundary:
            moved = math.ceil(self.save_steps / boundary) * boundary
            warnings.warn(
                f"save_steps={self.save_steps} would save inside a generated batch, which lasts {boundary} steps; "
                f"moved to {moved} so that a resumed run equals a straight one",
                stacklevel=3,
            )
            self.save_steps = moved


_LOSS_REASONS = {
    "bnpo": "it divides by the tokens of each micro-batch, so the update depends on how the batch is split",
    "cispo": "it clips the weight of the log-probability instead of the ratio, which is another objective",
    "sapo": "it replaces the clipped ratio of the paper's objective by a soft gate",
    "vespo": "it weights whole sequences by their ratio, which vanishes for the long responses that are eligible",
    "luspo": "it sums the tokens of a response, so that long responses dominate instead of counting once",
}
