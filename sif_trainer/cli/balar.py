"""`sif balar STAGE`: which question should be asked, and of whom, before a case is answered?

sif balar run balar/smollm2_icraft data=icraft.jsonl   cases, a model, simulated users, baselines
sif balar chat balar/chat                              you answer the questions, and see the belief change
sif balar synthetic                                    worlds with known tables, without a language model
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from sif_trainer.cli.stages import Stages, add_stage_arguments, hand_over, open_folder, target
from sif_trainer.runs.recipe import load_recipe, parse_overrides
from sif_trainer.runs.schema import build


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif balar` takes."""
    add_stage_arguments(parser, "balar", STAGES, __doc__)


def run(args: argparse.Namespace) -> int:
    """Hand over to the stage."""
    return hand_over(args, STAGES)


def _run(args: argparse.Namespace) -> None:
    from sif_trainer.systems.balar.figures import draw
    from sif_trainer.systems.balar.recipe import BalarRecipe
    from sif_trainer.systems.balar.run import run_study
    from sif_trainer.systems.balar.summary import format_summary

    name, overrides = target(args, "a recipe")
    recipe = build(BalarRecipe, load_recipe(name, overrides, BalarRecipe))
    folder = open_folder(args, Path(name).stem, asdict(recipe), inputs=recipe.inputs)
    summary = run_study(folder, recipe)
    draw(summary, folder.path)
    print(format_summary(summary))
    print(f"records and figures are in {folder.path}")


def _chat(args: argparse.Namespace) -> None:
    from sif_trainer.systems.balar.chat import ChatRecipe, chat

    name, overrides = target(args, "a recipe")
    recipe = build(ChatRecipe, load_recipe(name, overrides, ChatRecipe))
    chat(open_folder(args, Path(name).stem, asdict(recipe), inputs=recipe.inputs), recipe)


def _synthetic(args: argparse.Namespace) -> None:
    from sif_trainer.systems.balar.figures import draw_synthetic
    from sif_trainer.systems.balar.synthetic import SyntheticRecipe, format_summary, run_synthetic

    recipe = build(SyntheticRecipe, parse_overrides(args.arguments, SyntheticRecipe))
    folder = open_folder(args, "synthetic", asdict(recipe))
    summary = run_synthetic(folder, recipe)
    draw_synthetic(summary, folder.path / "synthetic.png")
    print(format_summary(summary))
    print(f"records and a figure are in {folder.path}")


STAGES: Stages = {"run": _run, "chat": _chat, "synthetic": _synthetic}
