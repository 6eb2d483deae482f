"""`sif study RECIPE [key=value …]`: one training recipe under several rules and seeds, as a table with intervals.

    sif study study/cipher
    sif study study/cipher --report                          # tables and figure of what is there so far
    sif study study/cipher 'only=[sif, intuitor]' 'seeds=[1, 2]' max_steps=40 --run runs/study/short

Every arm and seed is an ordinary `sif train` run in FOLDER/ARM/seedK, one after the other, all arms of a seed before
the next seed. Calling again goes on; arms and seeds may be added. Arms that differ in rollouts, steps or what is
measured are refused: the paper compares at equal rollouts and steps.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sif_trainer.cli.recipe_arguments import add_recipe_arguments
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.fresh_process import ProcessFailed, call_fresh
from sif_trainer.runs.progress import Progress
from sif_trainer.runs.recipe import differences, short_name

PRELOAD = ["sif_trainer.evaluation.online", "sif_trainer.trainer.factory"]
# What must not differ between arms: it decides which rollouts are drawn, how often is learned, and what is measured.
EQUAL = (
    "model", "prompts", "prompt_split", "num_prompts", "max_prompt_length", "prompts_per_step", "num_generations",
    "max_completion_length", "temperature", "max_steps", "num_train_epochs", "num_iterations", "steps_per_generation",
    "save_steps", "validation", "validation_split", "validation_rule", "num_validation_prompts",
    "num_validation_samples",
)  # fmt: skip


@dataclass
class StudyRecipe:
    """What a study says besides the keys of a training recipe, which all of its arms share."""

    arms: dict[str, dict[str, Any] | None] = field(
        metadata={"help": "From an arm's name to the training keys in which it differs, such as {feedback: top2}."}
    )
    base: str | None = field(
        default=None, metadata={"help": "Training recipe under the arms; the study's own keys replace its keys."}
    )
    only: list[str] = field(default_factory=list, metadata={"help": "Arms to run now; all if left out."})
    seeds: list[int] = field(
        default_factory=lambda: [1, 2, 3, 4, 5], metadata={"help": "Every arm is run once with each."}
    )
    reference: str = field(default="sif", metadata={"help": "Arm that the others are compared with, seed by seed."})
    shown_steps: list[int] = field(
        default_factory=list, metadata={"help": "Steps whose accuracy the table shows (paper: Table 11)."}
    )
    tables: dict[str, list[str]] = field(
        default_factory=dict, metadata={"help": "From a table's title to its arms; one table of all if left out."}
    )


@dataclass(frozen=True)
class Plan:
    """A checked study: what its arms share, in what each that is to run differs, and how it is shown."""

    shared: dict[str, Any]
    arms: dict[str, dict[str, Any]]
    seeds: list[int]
    shown: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif study` takes."""
    add_recipe_arguments(parser, "a recipe's name, such as study/cipher, or its path", "study")
    parser.add_argument("--report", action="store_true", help="train nothing; show what the folder holds")


def run(args: argparse.Namespace) -> int:
    """Run what is not finished, and show the tables; status 1 when a run failed."""
    path = Path(args.run or f"runs/study/{short_name(args.recipe).removeprefix('study/')}")
    failures = 0 if args.report else _run_all(args.recipe, args.overrides, path)
    from sif_trainer.analysis.study import study_results
    from sif_trainer.report.study import show_study

    show_study(path, study_results(path))
    return 1 if failures else 0


def _run_all(recipe: str, overrides: list[str], path: Path) -> int:
    """Train every arm with every seed and return how many runs failed; an arm that fails does not end the study."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            "a study trains its runs one by one in a process of its own; start it without a launcher, or start its "
            "runs with one, each as `sif train` into FOLDER/ARM/seedK, and show them with --report"
        )
    print("loading torch and trl …", file=sys.stderr, flush=True)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    plan = call_fresh(make_plan, recipe, overrides, path, preload=PRELOAD)
    folder = RunFolder.open(path, "study", plan.shared)
    _remember(plan, folder)
    runs = [(arm, seed) for seed in plan.seeds for arm in plan.arms]
    ahead = [(arm, seed) for arm, seed in runs if not (run_path(path, arm, seed) / "summary.json").exists()]
    records, failures = folder.records("runs"), 0
    if ahead:  # of a study that had ended, and got more arms or seeds
        (path / "summary.json").unlink(missing_ok=True)
    with Progress("study", len(runs), "run", done=len(runs) - len(ahead), interval=0) as progress:
        for arm, seed in ahead:
            print(f"{arm}, seed {seed}", file=sys.stderr, flush=True)
            try:
                values = {**plan.shared, **plan.arms[arm], "seed": seed}
                call_fresh(train_one, run_path(path, arm, seed), values, preload=PRELOAD)
                records.append({"arm": arm, "seed": seed, "failed": None})
                note = f"{arm}, seed {seed} finished"
            except (UserError, ProcessFailed) as error:
                failures += 1
                records.append({"arm": arm, "seed": seed, "failed": str(error)})
                note = f"{arm}, seed {seed} failed: {error}"
            progress.update(1, note)
    if not failures:
        folder.finish({"num_runs": len(runs)})
    return failures


def run_path(folder: Path, arm: str, seed: int) -> Path:
    """Return where the run of an arm and a seed lives."""
    return folder / arm / f"seed{seed}"


def train_one(path: Path, values: dict[str, Any]) -> None:
    """Train one run; called in a fresh process."""
    from sif_trainer.cli.train import quiet_libraries, train_in

    quiet_libraries()
    train_in(path, values)


def make_plan(recipe: str, overrides: list[str], path: Path) -> Plan:
    """Read the recipe, and check every arm before any is trained; called in a fresh process.

    Raises:
        UserError: for settings that cannot work, or arms that are not comparable.
    """
    from sif_trainer.cli.train import quiet_libraries

    quiet_libraries()
    from sif_trainer.runs.recipe import find_recipe, load_recipe
    from sif_trainer.runs.schema import build, check, fields_of
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.factory import TrainRecipe, build_config

    values = load_recipe(recipe, overrides, StudyRecipe, TrainRecipe, SIFConfig)
    study = build(StudyRecipe, values)
    _check_names(study)
    shared = {key: value for key, value in values.items() if key not in fields_of(StudyRecipe)}
    arms = {
        name: check(settings or {}, fields_of(TrainRecipe, SIFConfig), f"{find_recipe(recipe)}, arm {name}")
        for name, settings in study.arms.items()
    }
    if any("seed" in settings for settings in (shared, *arms.values())):
        raise UserError("a study runs every arm with the same seeds: set seeds=[...], not seed")
    if study.base is not None:
        shared = load_recipe(study.base, [], TrainRecipe, SIFConfig) | shared
        shared.pop("seed", None)
    resolved = {}
    for name, settings in arms.items():
        together = shared | settings
        try:
            train, config = build(TrainRecipe, together), build_config(together, path / name)
        except UserError as error:
            raise UserError(f"arm {name}: {error}") from error
        if train.validation is None:
            raise UserError("a study compares held-out accuracy: name held-out prompts as validation=...")
        resolved[name] = {key: getattr(train if hasattr(train, key) else config, key) for key in EQUAL}
    _check_equal(resolved)
    shown = {"reference": study.reference, "shown_steps": study.shown_steps, "tables": study.tables}
    return Plan(shared, {name: arms[name] for name in study.only or arms}, study.seeds, shown)


def _check_names(study: StudyRecipe) -> None:
    if not study.arms or not study.seeds or len({*study.seeds}) < len(study.seeds):
        raise UserError("a study needs at least one arm, and seeds that are all different")
    for name in study.arms:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(f"the arm '{name}' names a folder: use letters, digits, '_', '-' and '.'")
    for name in (study.reference, *study.only, *(name for names in study.tables.values() for name in names)):
        if name not in study.arms:
            raise UserError(f"no arm '{name}', which reference, only or tables name{nearest(name, study.arms)}")


def _check_equal(resolved: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse arms that differ in more than how they learn from what they sampled."""
    (first, wanted), *others = resolved.items()
    for name, found in others:
        for key, sides in differences(found, wanted).items():
            raise UserError(
                f"arms '{first}' and '{name}' are not comparable: {key} is {sides['reference']!r} and "
                f"{sides['here']!r}; rollouts, steps and what is measured must be equal"
            )


def _remember(plan: Plan, folder: RunFolder) -> None:
    """Write study.json, from which the report is drawn; arms that earlier starts ran stay in it."""
    file = folder.path / "study.json"
    earlier = json.loads(file.read_text(encoding="utf-8"))["arms"] if file.exists() else {}
    for name in plan.arms.keys() & earlier.keys():
        if (folder.path / name).exists() and plan.arms[name] != earlier[name]:
            raise UserError(
                f"{folder.path / name} was trained with {earlier[name]}, not {plan.arms[name]}; give the arm another "
                "name, or remove that folder"
            )
    folder.write_json("study", {**plan.shown, "arms": {**earlier, **plan.arms}})
