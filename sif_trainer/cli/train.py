"""`sif train RECIPE [key=value …]`: train a policy with SIF; also under `accelerate launch -m sif_trainer.cli.main`.

    sif train smoke/quickstart
    sif train train/smollm2-135m_gsm8k_cpu prompts=my_prompts.jsonl learning_rate=1e-6 --run runs/mine

Calling it again goes on where the run was. Reference answers enter monitors and validation here, and nowhere else.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from sif_trainer.cli.recipe_arguments import add_recipe_arguments, default_folder
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif train` takes."""
    add_recipe_arguments(parser, "a recipe's name, such as smoke/quickstart, or its path", "train")


def run(args: argparse.Namespace) -> int:
    """Train, or go on, or show what a finished run came to."""
    print("loading torch and trl …", file=sys.stderr, flush=True)
    quiet_libraries()
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.factory import TrainRecipe

    values = load_recipe(args.recipe, args.overrides, TrainRecipe, SIFConfig)
    path = default_folder(args, "train")
    if train_in(path, values).writer:
        from sif_trainer.report.training import show_training

        show_training(path)
    return 0


def train_in(path: Path, values: dict[str, Any]) -> RunFolder:
    """Train in the folder what the values of a recipe say, or go on there; nothing is left to do in a finished one."""
    from sif_trainer.report.card import write_cards
    from sif_trainer.runs.schema import build
    from sif_trainer.trainer.adapters import merge_trained
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.factory import TrainRecipe, build_config, make_trainer
    from sif_trainer.trainer.run import train

    recipe = build(TrainRecipe, values)
    config = build_config(values, path)
    paper = paper_recipe(TrainRecipe, SIFConfig)
    facts = {"trains_on_reference_answers": "verdict" in config.find_rule().reads}
    folder = RunFolder.open(path, "train", {**paper, **values}, reference=paper, seed=config.seed, facts=facts)
    if folder.finished:
        print(f"{path} is finished; name another folder with --run to train again", file=sys.stderr)
    else:
        trainer = make_trainer(
            recipe, config, monitors=monitors_of(recipe, config), answers=answer_reader(recipe.answer_rule)
        )
        measure = _measure(recipe, config, trainer.processing_class)
        summary = train(trainer, folder, measure)
        merge_trained(recipe, folder)
        folder.finish(summary)
        if folder.writer:
            write_cards(path)
    return folder


def quiet_libraries() -> None:
    """Progress bars and notes on renamed arguments drown what a user should read."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    import datasets
    import transformers

    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()


def paper_recipe(*schemas: type) -> dict[str, Any]:
    """The paper's recipe: the defaults of the settings that are ours or that we pin; TRL's others are TRL's."""
    return {
        field.name: field.default
        for schema in schemas
        for field in dataclasses.fields(schema)
        if field.default is not dataclasses.MISSING
        and any(field.name in vars(c).get("__annotations__", {}) for c in _ours(schema))
    }


def _ours(schema: type) -> list[type]:
    return [c for c in schema.__mro__ if c.__module__.startswith("sif_trainer")]


def answer_reader(rule: str | None) -> Any:
    """What finds and compares the answers of responses, for rules that vote by answer; None without a rule."""
    if rule is None:
        return None
    from sif_trainer.tasks.agreement import AnswerReader

    return AnswerReader(rule)


def monitors_of(recipe: Any, config: Any) -> list[Any]:
    """The reward functions that grade the training responses for the log only; none without a rule or answers."""
    if recipe.monitor is None:
        return []
    from sif_trainer.data.answers import load_answers
    from sif_trainer.tasks.monitor import accuracy_monitor

    monitor_of = functools.partial(accuracy_monitor, rule=recipe.monitor)
    monitor_of({})  # refuses an unknown rule
    split, limit = recipe.prompt_split, recipe.num_prompts
    try:
        answers = load_answers(recipe.prompts, recipe.answer_column, split, limit, config.seed, recipe.data_dir)
    except UserError as error:
        if recipe.answer_column is not None or "verdict" in config.find_rule().reads:
            raise
        print(f"monitor: off, because {error}", file=sys.stderr)  # training needs no answers
        return []
    return [monitor_of(answers)]


def _measure(recipe: Any, config: Any, tokenizer: Any) -> Any:
    """From the live model to held-out accuracy, on prompts put to it as in training; None without validation."""
    if recipe.validation is None:
        return None
    rule = recipe.validation_rule or recipe.monitor
    if rule is None:
        raise UserError("validation needs a rule to grade by: set validation_rule=math, gsm8k, cipher, …")
    from sif_trainer.data.answers import load_answers
    from sif_trainer.data.prompts import load_prompts
    from sif_trainer.evaluation.online import online_measure

    source, split, limit = recipe.validation, recipe.validation_split, recipe.num_validation_prompts
    held_out = dataclasses.replace(recipe, prompts=source, prompt_split=split, num_prompts=limit)
    template = config.chat_template_kwargs or {}
    # Seed 0 for every run: runs of several seeds are measured on the same problems.
    answers = load_answers(source, recipe.answer_column, split, limit, 0, recipe.data_dir)
    rows = load_prompts(held_out, tokenizer, 0, **template).dataset
    return online_measure(
        tokenizer,
        [(row["id"], row["prompt"], answers[row["id"]].gold, rule) for row in rows if row["id"] in answers],
        max_tokens=config.max_completion_length,
        num_samples=recipe.num_validation_samples,
        temperature=config.temperature,
        batch_size=config.per_device_train_batch_size * config.gradient_accumulation_steps,  # as many as a rollout
        chat_template_kwargs=template,
    )
