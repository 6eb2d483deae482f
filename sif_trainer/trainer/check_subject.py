"""From a recipe to what is checked: settings, tokenizer, prompts and the model's configuration; no weights.

subject = look_at(values, launch, folder, device=None)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sif_trainer.data.prompts import load_prompts
from sif_trainer.policy.checkpoint import is_adapter, locate, read_adapter
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.schema import build
from sif_trainer.trainer.adapters import check_adapter
from sif_trainer.trainer.batch import plan_batch
from sif_trainer.trainer.check import Subject
from sif_trainer.trainer.engine_certainty import check_engine_certainty
from sif_trainer.trainer.factory import TrainRecipe, build_config
from sif_trainer.trainer.launched import Launch

_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")
# Settings that ask for packages which a machine without GPUs lacks.
_ELSEWHERE = ("use_vllm", "certainty_source", "load_in_4bit")


def look_at(values: Mapping[str, Any], launch: Launch, folder: Path, device: str | None = None) -> Subject:
    """Read all that can be known before weights are loaded.

    Args:
        values: the recipe's, for `TrainRecipe` and `SIFConfig`.
        launch: processes and sharding.
        folder: the run's, for paths only.
        device: a kind of GPU to plan for instead of this machine's.

    Raises:
        UserError: for settings that contradict one another, and a model or prompts that cannot be read.
    """
    recipe = build(TrainRecipe, values)
    check_adapter(recipe, recipe.model)
    planned = dict(values)
    if launch.num_processes > 1:  # they are for that many, and settings here are made for one process
        planned = {key: value for key, value in planned.items() if key not in _BATCH}
    if device is not None:
        planned = {"bf16": True, "gradient_checkpointing": True, **planned}
        planned = {key: value for key, value in planned.items() if key not in _ELSEWHERE}
    config = build_config(planned, folder)
    config.use_vllm = values.get("use_vllm", False)
    config.certainty_source = values.get("certainty_source", "model")
    per_device, accumulation = (values.get(key) for key in _BATCH)
    try:
        check_engine_certainty(config)
        batch = plan_batch(
            config.batch_plan.prompts_per_step, config.num_generations, launch.num_processes, per_device, accumulation
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    tokenizer, model_config, end_ids = read_model(recipe.model)
    return Subject(
        recipe=recipe,
        config=config,
        launch=launch,
        batch=batch,
        prompts=load_prompts(recipe, tokenizer, seed=config.seed, **(config.chat_template_kwargs or {})),
        tokenizer=tokenizer,
        model_config=model_config,
        end_ids=end_ids,
        on_cpu=device is None and not torch.accelerator.is_available(),
    )


def read_model(spec: str) -> tuple[Any, Any, tuple[int, ...]]:
    """Tokenizer, configuration and end tokens of a model, or of an adapter's base, without its weights.

    Raises:
        UserError: no such model.
    """
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    where = locate(spec)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where.name, gguf_file=where.gguf_file)
        if is_adapter(where):
            where = locate(read_adapter(where.name).base_model_name_or_path or spec)
        model_config = AutoConfig.from_pretrained(where.name, gguf_file=where.gguf_file)
    except (OSError, ValueError) as error:
        raise UserError(f"model={spec}: cannot be read: {str(error).strip().splitlines()[0]}") from error
    ends = [tokenizer.eos_token_id, model_config.get_text_config().eos_token_id]
    with contextlib.suppress(OSError, json.JSONDecodeError):  # a model need not have one
        ends.append(GenerationConfig.from_pretrained(where.name).eos_token_id)
    flat = [i for end in ends if end is not None for i in (end if isinstance(end, list) else [end])]
    return tokenizer, model_config, tuple(dict.fromkeys(flat))
