"""`sif balar STAGE`: which question should be asked, and of whom, before a case is answered?

sif balar run balar/icraft_smollm2 data=icraft.json   cases, a model, simulated users, baselines
sif balar chat balar/chat                             you answer the questions, and see the belief change
sif balar synthetic                                   worlds with known tables, without a language model
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe, parse_overrides
from sif_trainer.runs.schema import build


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif balar` takes."""
    parser.add_argument("stage", metavar="STAGE", help=f"one of {', '.join(STAGES)}")
    parser.add_argument("arguments", metavar="...", nargs="*", help="the stage's recipe, then key=value settings")
    parser.add_argument("--run", metavar="FOLDER", help="run folder; called again, the command goes on there")
    parser.epilog = __doc__.split("\n\n")[1]


def run(args: argparse.Namespace) -> int:
    """Hand over to the stage."""
    if args.stage not in STAGES:
        raise UserError(f"no stage '{args.stage}'{nearest(args.stage, STAGES)}; there are {', '.join(STAGES)}")
    STAGES[args.stage](args)
    return 0


def _run(args: argparse.Namespace) -> None:
    from sif_trainer.systems.balar.figures import draw
    from sif_trainer.systems.balar.recipe import BalarRecipe
    from sif_trainer.systems.balar.run import run_study
    from sif_trainer.systems.balar.summary import format_summary

    name, overrides = _recipe(args)
    recipe = build(BalarRecipe, load_recipe(name, overrides, BalarRecipe))
    folder = _open(args, f"balar-{Path(name).stem}", asdict(recipe))
    summary = run_study(folder, recipe)
    draw(summary, folder.path)
    print(format_summary(summary))
    print(f"records and figures are in {folder.path}")


def _chat(args: argparse.Namespace) -> None:
    from sif_trainer.systems.balar.chat import ChatRecipe, chat

    name, overrides = _recipe(args)
    recipe = build(ChatRecipe, load_recipe(name, overrides, ChatRecipe))
    chat(_open(args, f"balar-{Path(name).stem}", asdict(recipe)), recipe)


def _synthetic(args: argparse.Namespace) -> None:
    from sif_trainer.systems.balar.figures import draw_synthetic
    from sif_trainer.systems.balar.synthetic import SyntheticRecipe, format_summary, run_synthetic

    recipe = build(SyntheticRecipe, parse_overrides(args.arguments, SyntheticRecipe))
    folder = _open(args, "balar-synthetic", asdict(recipe))
    summary = run_synthetic(folder, recipe)
    draw_synthetic(summary, folder.path / "synthetic.png")
    print(format_summary(summary))
    print(f"records and a figure are in {folder.path}")


def _recipe(args: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the recipe's name and the settings that follow it."""
    if not args.arguments or "=" in args.arguments[0]:
        raise UserError(f"name a recipe before the settings: sif balar {args.stage} RECIPE ...")
    return args.arguments[0], args.arguments[1:]


def _open(args: argparse.Namespace, name: str, config: dict[str, Any]) -> RunFolder:
    return RunFolder.open(args.run or f"runs/{name}", command=f"balar {args.stage}", config=config)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {"run": _run, "chat": _chat, "synthetic": _synthetic}
