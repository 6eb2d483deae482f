"""`sif resolve RECIPE [key=value …] [--key NAME]`: a recipe as the commands read it, or one of its values.

    sif resolve train/qwen2.5-math-1.5b_math --key model
    sif resolve launch/accelerate/zero2.yaml --key num_processes

Scripts ask this instead of parsing YAML. A launch file of accelerate can be asked as well. Defaults that are TRL's are
not printed, but can be asked for by name.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sif_trainer.cli.recipe_arguments import add_recipe_arguments
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.flat_yaml import dump, parse_mapping
from sif_trainer.runs.recipe import find_recipe, load_recipe

KINDS = {  # what is run by it: a key that only such a recipe has
    "launch": "distributed_type",
    "study": "arms",
    "adapt": "benchmark",
    "eval": "suite",
    "train": "prompts",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif resolve` takes."""
    add_recipe_arguments(parser, "a recipe's name or path, or a launch file")
    parser.add_argument(
        "--key",
        metavar="NAME",
        action="append",
        help="this value alone, as a shell wants it; more of them, a line each",
    )


def run(args: argparse.Namespace) -> int:
    """Print the resolved recipe, or one value: a text as it is, true or false, nothing for null."""
    kind = kind_of(args.recipe, args.overrides)
    if kind == "launch":
        values = parse_mapping(find_recipe(args.recipe).read_text(encoding="utf-8"), args.recipe)
        values |= parse_mapping("\n".join(o.replace("=", ": ", 1) for o in args.overrides), "command line")
        everything = values
    else:
        with contextlib.redirect_stdout(sys.stderr):  # libraries greet on stdout, where a script expects a value
            schemas = schemas_of(kind)
        found = load_recipe(args.recipe, args.overrides, *schemas)
        values = {**ours(*schemas), **found}
        everything = {**_defaults(schemas), **values}
    if args.key is None:
        print(dump(values), end="")
        return 0
    for key in args.key:
        if key not in everything:
            raise UserError(f"{args.recipe} has no key '{key}'{nearest(key, everything)}")
    print("\n".join(_plain(everything[key]) for key in args.key))
    return 0


def kind_of(recipe: str, overrides: Iterable[str] = ()) -> str:
    """Tell from a recipe's keys, or else from the overrides', which command it is for: launch, study, adapt, …

    Raises:
        UserError: for a recipe of another command.
    """
    path = find_recipe(recipe)
    written = parse_mapping(path.read_text(encoding="utf-8"), str(path))
    given = [override.partition("=")[0] for override in overrides]
    for keys in (written, given):
        for kind, key in KINDS.items():
            if key in keys:
                return kind
    raise UserError(
        f"{path}: no recipe for training, adaptation, evaluation or a study: it has none of the keys "
        f"{', '.join(KINDS.values())}"
    )


def schemas_of(kind: str) -> tuple[type, ...]:
    """The dataclasses whose fields a recipe of this kind may set."""
    if kind == "eval":
        from sif_trainer.evaluation.recipe import EvalRecipe

        return (EvalRecipe,)
    from sif_trainer.trainer.config import SIFConfig

    if kind == "adapt":
        from sif_trainer.cli.adapt import AdaptRecipe

        return AdaptRecipe, SIFConfig
    from sif_trainer.trainer.factory import TrainRecipe

    if kind == "study":
        from sif_trainer.cli.study import StudyRecipe

        return StudyRecipe, TrainRecipe, SIFConfig
    return TrainRecipe, SIFConfig


def ours(*schemas: type) -> dict[str, Any]:
    """The defaults that are the paper's or ours."""
    from sif_trainer.cli.train import paper_recipe

    return paper_recipe(*schemas)


def _defaults(schemas: tuple[type, ...]) -> dict[str, Any]:
    fields = [field for schema in reversed(schemas) for field in dataclasses.fields(schema)]
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    return str(value) if not isinstance(value, Path) else value.as_posix()
