"""`sif adap STAGE`: how many to draw, and how many to verify, until one passes?

sif adap plan --c-rew 1 --c-ver 10                    the rounds of a search, in words; --json for programs
sif adap replay pool.npz                              ADAP and its baselines on recorded samples; --json
sif adap search adap/cipher                           search a policy's completions, live
sif adap record adap/cipher num_samples=64            record a pool for replay
sif adap simulate num_instances=10000                 the cost over the best possible, on random instances
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from sif_trainer.cli.stages import Stages, add_stage_arguments, hand_over, open_folder, target
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import load_recipe, parse_overrides
from sif_trainer.runs.records import strict_json
from sif_trainer.runs.schema import build


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif adap` takes."""
    add_stage_arguments(parser, "adap", STAGES, __doc__)
    parser.add_argument("--c-rew", metavar="COST", default="1", help="plan: cost of a draw with its score (1)")
    parser.add_argument("--c-ver", metavar="COST", default="10", help="plan: cost of a verification (10)")
    parser.add_argument("--rounds", metavar="N", type=int, default=8, help="plan: rounds to show (8)")
    parser.add_argument("--rule", default="adap", help="plan: adap, or balanced, which is not the paper's")
    parser.add_argument("--json", action="store_true", help="plan, replay: print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Hand over to the stage."""
    return hand_over(args, STAGES)


def _plan(args: argparse.Namespace) -> None:
    from sif_trainer.systems.adap.plan import describe, plan
    from sif_trainer.systems.adap.schedule import Costs

    if args.arguments:
        raise UserError(f"plan takes no '{args.arguments[0]}'; prices are given as --c-rew 1 --c-ver 10")
    costs = Costs.of(args.c_rew, args.c_ver)
    rows = plan(costs, args.rounds, args.rule)
    print(json.dumps(rows) if args.json else describe(rows, costs, args.rule))


def _replay(args: argparse.Namespace) -> None:
    from sif_trainer.systems.adap.compare import ReplayConfig, run_replay
    from sif_trainer.systems.adap.pools import content, read_pool
    from sif_trainer.systems.adap.tables import format_replay

    file, overrides = target(args, "a pool, .npz or JSON lines,")
    config = build(ReplayConfig, parse_overrides(overrides, ReplayConfig))
    pool = read_pool(file)
    settings, inputs = {"pool": file, **asdict(config)}, {"pool": content(pool)}
    folder = open_folder(args, f"replay-{Path(file).stem}", settings, seed=config.seed, inputs=inputs)
    summary = run_replay(folder, pool, config)
    if args.json:
        print(strict_json(summary))
    else:
        print(format_replay(summary))
        print(f"curves, trials and summary are in {folder.path}")


def _search(args: argparse.Namespace) -> None:
    from sif_trainer.systems.adap.live import format_search, run_search
    from sif_trainer.systems.adap.recipe import SearchRecipe

    name, overrides = target(args, "a recipe")
    recipe = build(SearchRecipe, load_recipe(name, overrides, SearchRecipe))
    folder = open_folder(args, Path(name).stem, recipe.settings, seed=recipe.seed, inputs=recipe.inputs)
    print(format_search(run_search(folder, recipe)))


def _record(args: argparse.Namespace) -> None:
    from sif_trainer.systems.adap.recipe import RecordRecipe, SearchRecipe
    from sif_trainer.systems.adap.record import run_record

    name, overrides = target(args, "a recipe")
    # A search's recipe serves too: its prices and budget are not a recording's.
    recipe = build(RecordRecipe, load_recipe(name, overrides, RecordRecipe, SearchRecipe))
    folder = open_folder(args, f"record-{Path(name).stem}", recipe.settings, seed=recipe.seed, inputs=recipe.inputs)
    summary = run_record(folder, recipe)
    print(
        f"{summary['num_samples']} samples of {summary['num_problems']} problems, {summary['num_solvable']} of them "
        f"with a correct one; pass rate {summary['pass_rate']:.3f}; {summary['num_errors']} left out as errors\n"
        f"the pool is {folder.path / 'pool.npz'}"
    )


def _simulate(args: argparse.Namespace) -> None:
    from sif_trainer.systems.adap.simulate import SimulateConfig, format_summary, run_simulation

    config = build(SimulateConfig, parse_overrides(args.arguments, SimulateConfig))
    print(format_summary(run_simulation(open_folder(args, "simulate", asdict(config), seed=config.seed), config)))


STAGES: Stages = {
    "plan": _plan,
    "replay": _replay,
    "search": _search,
    "record": _record,
    "simulate": _simulate,
}
