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
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe, parse_overrides
from sif_trainer.runs.schema import build


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif jointcore` takes."""
    parser.add_argument("stage", metavar="STAGE", help=f"one of {', '.join(STAGES)}")
    parser.add_argument(
        "arguments", metavar="...", nargs="*", help="the stage's file or recipe, then key=value settings"
    )
    parser.add_argument("--recipe", metavar="RECIPE", help="settings for select, by path or name")
    parser.add_argument("--run", metavar="FOLDER", help="run folder; called again, the command goes on there")
    parser.epilog = __doc__.split("\n\n")[1]


def run(args: argparse.Namespace) -> int:
    """Hand over to the stage."""
    if args.stage not in STAGES:
        raise UserError(f"no stage '{args.stage}'{nearest(args.stage, STAGES)}; there are {', '.join(STAGES)}")
    STAGES[args.stage](args)
    return 0


def _exact(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.exact import ExactConfig, format_table, run_exact

    config = build(ExactConfig, parse_overrides(args.arguments, ExactConfig))
    summary = run_exact(_open(args, "jointcore-exact", asdict(config)), config)
    print(format_table(summary["overall"]))


def _noise(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.noise import NoiseConfig, format_rows, run_noise

    config = build(NoiseConfig, parse_overrides(args.arguments, NoiseConfig))
    print(format_rows(run_noise(_open(args, "jointcore-noise", asdict(config)), config)))


def _select(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.select_run import SelectConfig, describe, select_file

    file, overrides = _target(args, "a file of records")
    settings = load_recipe(args.recipe, [], SelectConfig) if args.recipe else {}
    config = build(SelectConfig, settings | parse_overrides(overrides, SelectConfig))
    folder = _open(args, f"jointcore-select-{Path(file).stem}", {"file": file, **asdict(config)})
    print(describe(select_file(file, folder, config, tell=lambda line: print(line, file=sys.stderr))))


def _model(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.model import ModelRecipe, format_summary, make_judge, run_model

    name, overrides = _target(args, "a recipe")
    recipe = build(ModelRecipe, load_recipe(name, overrides, ModelRecipe))
    folder = _open(args, f"jointcore-{Path(name).stem}", asdict(recipe))
    print(format_summary(run_model(folder, recipe, lambda: make_judge(recipe, folder))))


def _robust(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore.model import ModelRecipe, make_judge
    from sif_trainer.systems.jointcore.robustness import format_summary, run_robustness

    name, overrides = _target(args, "a recipe")
    recipe = build(ModelRecipe, load_recipe(name, overrides, ModelRecipe))
    folder = _open(args, f"jointcore-robust-{Path(name).stem}", asdict(recipe))
    summary = run_robustness(folder, recipe, lambda: make_judge(recipe, folder))
    print(format_summary(summary))

    from sif_trainer.systems.jointcore.figures import robustness

    robustness({Path(name).stem: summary}, folder.path / "robustness.png")


def _compare(args: argparse.Namespace) -> None:
    from sif_trainer.systems.jointcore import figures
    from sif_trainer.systems.jointcore.compare import compare, format_tests, pool, read_runs

    runs = read_runs(args.arguments)
    folder = _open(args, "jointcore-compare", {"runs": args.arguments})
    tests = compare(runs)
    figures.queries_against_recovery(runs, folder.path / "queries_against_recovery.png")
    figures.families(runs, folder.path / "families.png")
    folder.finish({"tests": [test._asdict() for test in tests], "pool": pool(runs)})
    print(format_tests(tests))
    print(f"figures and summary are in {folder.path}")


def _target(args: argparse.Namespace, what: str) -> tuple[str, list[str]]:
    """Return the stage's first argument and its settings."""
    if not args.arguments or "=" in args.arguments[0]:
        raise UserError(f"name {what} before the settings: sif jointcore {args.stage} ...")
    return args.arguments[0], args.arguments[1:]


def _open(args: argparse.Namespace, name: str, config: dict[str, Any]) -> RunFolder:
    return RunFolder.open(args.run or f"runs/{name}", command=f"jointcore {args.stage}", config=config)


STAGES: dict[str, Callable[[argparse.Namespace], None]] = {
    "exact": _exact,
    "noise": _noise,
    "select": _select,
    "model": _model,
    "robust": _robust,
    "compare": _compare,
}
