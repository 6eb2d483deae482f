"""What commands that run a recipe share: their arguments, and the folder they run in unless another is named.

add_recipe_arguments(parser, "a recipe's name, such as smoke/quickstart, or its path", command="train")
default_folder(args, "train")                  # runs/train/smoke/quickstart
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sif_trainer.runs.recipe import short_name


def add_recipe_arguments(parser: argparse.ArgumentParser, recipe: str, command: str | None = None) -> None:
    """Declare the recipe, whose help is given, its overrides, and, of a command that has one, the run's folder."""
    parser.add_argument("recipe", help=recipe)
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="settings that replace the recipe's"
    )
    if command is not None:
        parser.add_argument("--run", metavar="FOLDER", help=f"the run's folder (default: runs/{command}/RECIPE)")


def default_folder(args: argparse.Namespace, command: str) -> Path:
    """Return the folder that `--run` names, or the recipe's own below `runs/`."""
    return Path(args.run or f"runs/{command}/{short_name(args.recipe)}")
