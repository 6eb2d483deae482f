"""`sif eval [RECIPE] [key=value …]`: evaluate a model on benchmarks; `sif eval --compare A B`: two such runs.

    sif eval smoke/evaluate
    sif eval --model path/to/checkpoint --suite math500 --data-dir data num_samples=16
    accelerate launch --num_processes 4 -m sif_trainer.cli.main eval evaluate/sif12 model=path/to/checkpoint
    sif eval --compare runs/eval/before runs/eval/after

Calling it again goes on where the run was; a run that is complete prints its table again.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe, parse_overrides, short_name
from sif_trainer.runs.schema import build

if TYPE_CHECKING:
    from sif_trainer.evaluation.recipe import EvalRecipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif eval` takes."""
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="RECIPE key=value",
        help="a recipe's name or path, and settings that replace its own",
    )
    parser.add_argument("--model", help="the same as model=…")
    parser.add_argument("--suite", help="the same as suite=…; several names with commas between them")
    parser.add_argument("--data-dir", metavar="FOLDER", help="the same as data_dir=…")
    parser.add_argument(
        "--run", metavar="FOLDER", help="the run's folder (default: runs/eval/RECIPE, or after model and suite)"
    )
    parser.add_argument(
        "--export", choices=["lm-eval"], help="write the results in lm-evaluation-harness's layout as well"
    )
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"), help="the paired difference of two finished runs")
    parser.add_argument("--note", help="with --compare: why the two runs may differ in decoding")


def run(args: argparse.Namespace) -> int:
    """Evaluate, or go on, or show, or compare."""
    return _compare(args) if args.compare else _evaluate(args)


def _evaluate(args: argparse.Namespace) -> int:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # they drown what a user should read
    from sif_trainer.evaluation.processes import Processes
    from sif_trainer.evaluation.recipe import EvalRecipe
    from sif_trainer.evaluation.run import evaluate
    from sif_trainer.report.evaluation import show_evaluation

    values, name = _settings(args, EvalRecipe)
    recipe = build(EvalRecipe, values)
    processes = Processes.join(recipe.engine_options.get("tensor_parallel_size", 1))
    path = Path(args.run or f"runs/eval/{name}")
    folder = RunFolder.open(path, "eval", recipe.settings, reference=_paper(EvalRecipe), seed=recipe.seed)
    if not folder.finished:
        results = evaluate(recipe, folder, processes)
        if results is not None:
            folder.finish({name: result.scores.avg.value for name, result in results.benchmarks.items()})
    if folder.writer:
        show_evaluation(path)
        print(f"page: sif report {path}")
        if args.export:
            from sif_trainer.evaluation.lm_eval import export

            print(f"exported to {export(path)}")
    return 0


def _settings(args: argparse.Namespace, schema: type[EvalRecipe]) -> tuple[dict[str, Any], str]:
    """Return the recipe's values and the run's default name."""
    settings = list(args.settings)
    recipe = settings.pop(0) if settings and "=" not in settings[0] else None
    if args.model:
        settings.append(f"model={args.model}")
    if args.suite:
        settings.append(f"suite=[{args.suite}]")
    if args.data_dir:
        settings.append(f"data_dir={args.data_dir}")
    if recipe:
        return load_recipe(recipe, settings, schema), short_name(recipe)
    values = parse_overrides(settings, schema)
    for needed in ("model", "suite"):
        if needed not in values:
            raise UserError(f"give a recipe, or --model and --suite; {needed} is missing (see sif eval --help)")
    suite = values["suite"] if isinstance(values["suite"], list) else [values["suite"]]
    return values, "_".join([str(values["model"]).strip("/").replace("/", "-").replace(":", "-"), *suite])


def _paper(schema: type[EvalRecipe]) -> dict[str, Any]:
    """The paper's settings: the defaults, as far as there are any."""
    settings = schema(model="", suite="sif12").settings
    return {name: value for name, value in settings.items() if name != "model"}


def _compare(args: argparse.Namespace) -> int:
    from sif_trainer.evaluation.compare import compare
    from sif_trainer.report.evaluation import comparison_page

    if args.settings:
        raise UserError(f"--compare takes two run folders and no settings, but there is '{args.settings[0]}'")
    comparison = compare(Path(args.compare[0]), Path(args.compare[1]), args.note)
    print(comparison_page(asdict(comparison)), end="")
    return 0
