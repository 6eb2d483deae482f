"""`sif jointcore STAGE`: which records of a memory does a decision need?

sif jointcore exact                                   the benchmark with a perfect judge: Table 1
sif jointcore noise                                   the same with a judge that errs
sif jointcore model jointcore/smollm2-135m            a policy as the judge of 432 decisions
sif jointcore robust jointcore/smollm2-135m           the same with other omissions and labels
sif jointcore compare runs/a runs/b                   paired tests and figures over model runs
sif jointcore select FILE command="python judge.py"   your records, your judge
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from sif_trainer.cli.stages import Stages, add_stage_arguments, hand_over, open_folder, target
from sif_trainer.runs.recipe import load_recipe, parse_overrides
from sif_trainer.runs.schema import build


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif jointcore` takes."""
    add_stage_arguments(parser, "jointcore", STAGES, __doc__)
    parser.add_argument("--recipe", metavar="RECIPE", help="settings for select, by path or name")


def run(args: argparse.Namespace) -> int:
    """Hand over to the stage."""
    return hand_over(args, STAGES)


def _exact(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.exact import ExactConfig, format_table, run_exact

    config = build(ExactConfig, parse_overrides(args.arguments, ExactConfig))
    summary = run_exact(open_folder(args, "exact", asdict(config)), config)
    print(format_table(summary["overall"]))


def _noise(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.noise import NoiseConfig, format_rows, run_noise

    config = build(NoiseConfig, parse_overrides(args.arguments, NoiseConfig))
    print(format_rows(run_noise(open_folder(args, "noise", asdict(config)), config)))


def _select(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.select_run import SelectConfig, describe, select_file

    file, overrides = target(args, "a file of records")
    settings = load_recipe(args.recipe, [], SelectConfig) if args.recipe else {}
    config = build(SelectConfig, settings | parse_overrides(overrides, SelectConfig))
    folder = open_folder(args, f"select-{Path(file).stem}", {"file": file, **asdict(config)}, inputs=config.inputs)
    print(describe(select_file(file, folder, config, tell=lambda line: print(line, file=sys.stderr))))


def _model(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.model import ModelRecipe, format_summary, make_judge, run_model

    name, overrides = target(args, "a recipe")
    recipe = build(ModelRecipe, load_recipe(name, overrides, ModelRecipe))
    folder = open_folder(args, Path(name).stem, asdict(recipe), inputs=recipe.inputs)
    print(format_summary(run_model(folder, recipe, lambda: make_judge(recipe, folder))))


def _robust(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.model import ModelRecipe, make_judge
    from sif_trainer.systems.jointcore.robustness import format_summary, run_robustness

    name, overrides = target(args, "a recipe")
    recipe = build(ModelRecipe, load_recipe(name, overrides, ModelRecipe))
    folder = open_folder(args, f"robust-{Path(name).stem}", asdict(recipe), inputs=recipe.inputs)
    summary = run_robustness(folder, recipe, lambda: make_judge(recipe, folder))
    print(format_summary(summary))

    from sif_trainer.systems.jointcore.figures import robustness

    robustness({Path(name).stem: summary}, folder.path / "robustness.png")


def _compare(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore import figures
    from sif_trainer.systems.jointcore.compare import compare, format_tests, pool, read_runs

    runs = read_runs(args.arguments)
    folder = open_folder(args, "compare", {"runs": args.arguments})
    tests = compare(runs)
    figures.queries_against_recovery(runs, folder.path / "queries_against_recovery.png")
    figures.families(runs, folder.path / "families.png")
    folder.finish({"tests": [test._asdict() for test in tests], "pool": pool(runs)})
    print(format_tests(tests))
    print(f"figures and summary are in {folder.path}")


STAGES: Stages = {
    "exact": _exact,
    "noise": _noise,
    "select": _select,
    "model": _model,
    "robust": _robust,
    "compare": _compare,
}
