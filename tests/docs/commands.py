"""What a command of the docs does when its turn comes: it is executed with little to do, or checked, with the reason.

`perform("sif", ["train", "smoke/quickstart"])` trains one step in the current folder (workspace.py).
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from accelerate.commands.launch import launch_command_parser
from pages import ROOT
from workspace import FEW, HELD_OUT, provide_runs

from sif_trainer.cli import resolve
from sif_trainer.cli.main import COMMANDS, main
from sif_trainer.probe.recipe import ProbeRecipe
from sif_trainer.runs.recipe import load_recipe, parse_overrides
from sif_trainer.systems.adap.recipe import RecordRecipe, SearchRecipe
from sif_trainer.systems.adap.simulate import SimulateConfig
from sif_trainer.systems.balar.chat import ChatRecipe
from sif_trainer.systems.balar.recipe import BalarRecipe
from sif_trainer.systems.balar.synthetic import SyntheticRecipe
from sif_trainer.systems.jointcore.exact import ExactConfig
from sif_trainer.systems.jointcore.model import ModelRecipe
from sif_trainer.systems.jointcore.noise import NoiseConfig
from sif_trainer.systems.jointcore.select_run import SelectConfig
from sif_trainer.trainer.config import SIFConfig

OWN = ["model=tiny", "prompts=problems.jsonl", "answer_column=null", "validation=null", "dtype=auto", "monitor=null"]
SHORT = ["window_size=3", "min_stride=1", "max_completion_length=24", "max_prompt_length=2000"]
# Settings put before those of the page (a model, data) and after them (how much is done); the first match counts.
CUTS: list[tuple[str, list[str], list[str]]] = [
    (r"check train/(qwen|llama)", OWN, []),
    (r"check train/smollm2.* --worst-case", OWN, [*SHORT, *FEW[:5]]),
    (r"check (train/smollm2|mine.yaml)", OWN, []),
    (r"probe mine.yaml", OWN, [*FEW, "num_probe_prompts=4", "max_completion_length=60"]),
    (r"train mine.yaml", OWN, [*FEW, "max_completion_length=60"]),
    (r"train train/smollm2", OWN, [*FEW, *SHORT]),
    (r"train ", [], [*FEW, *HELD_OUT]),
    (r"probe train/", OWN, [*FEW, *SHORT, "num_probe_prompts=4"]),
    (r"probe ", [], [*FEW, "num_probe_prompts=4"]),
    (r"study ", [], [*FEW, *HELD_OUT, "only=[sif]", "seeds=[1]", "shown_steps=[1]"]),
    (r"adapt adapt/", ["model=tiny", "dtype=auto"],
     [*FEW[1:], *SHORT, "bf16=false", "limit=2", "eval_num_samples=1", "eval_k=[1]"]),
    (r"adapt ", [], [*FEW[1:], "limit=4", "eval_num_samples=1", "eval_k=[1]"]),
    (r"eval (?!--compare)", [], ["limit=2", "num_samples=2", "k=[2]", "max_completion_length=8"]),
    (r"jointcore exact", [], ["methods=[full_memory, galloping]", "sizes=[8]"]),
    (r"jointcore noise", [], ["methods=[galloping]", "flip_rates=[0.1]", "budgets=[64]"]),
    (r"jointcore (model|robust)", [], ["model=simulated:50", "every=50", "engine_options={}"]),
    (r"jointcore select .*--recipe", [], ["model=scripted:script.json"]),
    (r"adap replay", [], []),
    (r"adap search|adap record", [], ["limit=2", "max_completion_length=48", "max_draws=8", "best_of_n=false"]),
    (r"adap simulate", [], ["num_instances=20", "num_runs=2"]),
    (r"balar synthetic", [], ["num_cases=2", "sizes=[small]", "variants=[balar]"]),
]  # fmt: skip
NOT_RUN = {  # commands that are checked and not run: why
    r"eval evaluate/sif12 model=vllm:": "needs vLLM and the hub",
    r"eval --model http": "needs a server",
    r"balar run balar/icraft": "needs MediQ's file and a server",
    r"study .*only=": "a study takes half a minute; another one is run",
}
STATUS = {"check": (0, 1)}  # a check of tiny stand-ins may well find a problem
STAGES: dict[str, dict[str, tuple[type, ...]]] = {  # commands of several stages, and whose settings each takes
    "adap": {
        "plan": (),
        "record": (RecordRecipe, SearchRecipe),
        "replay": (),
        "search": (SearchRecipe,),
        "simulate": (SimulateConfig,),
    },
    "balar": {"chat": (ChatRecipe,), "run": (BalarRecipe,), "synthetic": (SyntheticRecipe,)},
    "jointcore": {
        "compare": (),
        "exact": (ExactConfig,),
        "model": (ModelRecipe,),
        "noise": (NoiseConfig,),
        "robust": (ModelRecipe,),
        "select": (SelectConfig,),
    },
}


def perform(program: str, arguments: list[str]) -> None:
    """Execute or check a call; a program that nobody knows fails."""
    HANDLERS[program](arguments)


def run_sif(arguments: list[str]) -> None:
    """Execute a command with less to do, or check it where it cannot run here."""
    text = " ".join(arguments)
    if any(re.match(pattern, text) for pattern in NOT_RUN):
        check_sif(arguments)
        return
    before, after = next((rest for pattern, *rest in CUTS if re.match(pattern, text)), ([], []))
    words = provide_runs(Path.cwd(), arguments)
    place = next((i for i, word in enumerate(words) if word.startswith("--") or "=" in word), len(words))
    cut = [*words[:place], *before, *words[place:], *after]
    assert main(cut) in STATUS.get(words[0], (0,)), f"sif {' '.join(cut)}"


def check_sif(arguments: list[str]) -> None:
    """A command that is not run: its options exist, its recipe is there, its settings are the recipe's."""
    command, *rest = arguments
    assert command in COMMANDS, f"no command sif {command}"
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
    args = parser.parse_intermixed_args(rest)
    words = [
        word for name in ("recipe", "overrides", "settings", "arguments") for word in as_list(vars(args).get(name))
    ]
    recipe = words.pop(0) if words and "=" not in words[0] else None
    schemas = STAGES[command][args.stage] if command in STAGES else schemas_of(command, recipe)
    if schemas and recipe is not None:
        load_recipe(recipe, words, *schemas)
    elif words:
        parse_overrides(words, *schemas)


def as_list(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def schemas_of(command: str, recipe: str | None) -> tuple[type, ...]:
    """The dataclasses whose fields the settings of a command are."""
    if command == "probe":
        return ProbeRecipe, SIFConfig
    if command in ("check", "resolve") and recipe is not None:
        command = resolve.kind_of(recipe)
    return resolve.schemas_of(command) if command in resolve.KINDS and command != "launch" else ()


def check_script(arguments: list[str]) -> None:
    """A launch script: it is there, and so are the launch file and the recipe that it is given."""
    script, *rest = arguments
    assert (ROOT / script).is_file() and script.startswith("launch/"), script
    if rest and rest[0].endswith(".yaml"):
        assert (ROOT / rest.pop(0)).is_file()
    if rest:
        check_sif(["resolve", *(rest[:1] if script == "launch/evaluate.slurm" else rest)])  # it takes models as well


def check_sbatch(arguments: list[str]) -> None:
    while arguments[0].startswith("--"):
        assert arguments[0] in ("--time", "--nodes", "--array"), arguments[0]
        arguments = arguments[2:]
    check_script(arguments)


def check_accelerate(arguments: list[str]) -> None:
    args = launch_command_parser().parse_args(arguments[1:])
    assert arguments[0] == "launch" and args.module and args.training_script == "sif_trainer.cli.main"
    check_sif(args.training_script_args)


def check_pip(arguments: list[str]) -> None:
    """Packages that are declared, and extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {re.match(r"[\w-]+", line)[0] for group in extras.values() for line in group}
    assert arguments[0] == "install"
    for package in (word for word in arguments[1:] if not word.startswith("-")):
        name, _, extra = package.partition("[")
        known = extra.rstrip("]") in extras if name in (".", "sif-trainer") else name in declared
        assert known, f"pip install {package}: not declared in pyproject.toml"


def check_python(arguments: list[str]) -> None:
    """A module or a file that is there, with options that its text has."""
    if arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]), arguments[1]
        return
    file = ROOT / arguments[0]
    assert file.is_file(), arguments[0]
    options = {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
    for option in (word for word in arguments[1:] if word.startswith("--")):
        assert option in options, f"{arguments[0]} has no {option}"


def check_pytest(arguments: list[str]) -> None:
    """Folders and files that are there, with tests that a `-k` finds."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("paths", nargs="*", default=["tests"])
    parser.add_argument("-k", default="")
    args = parser.parse_args(arguments)
    check_paths(args.paths)
    files = [
        file for path in args.paths for file in [ROOT / path, *(ROOT / path).rglob("test_*.py")] if file.is_file()
    ]
    assert any(args.k in file.name or args.k in file.read_text(encoding="utf-8") for file in files), arguments


def check_paths(paths: list[str]) -> None:
    for path in paths:
        assert (ROOT / path).exists(), path


HANDLERS: dict[str, Callable[[list[str]], None]] = {
    "accelerate": check_accelerate,
    "bash": check_script,
    "docker": lambda arguments: check_paths([arguments[arguments.index("-f") + 1]]),
    "pip": check_pip,
    "pre-commit": lambda arguments: check_paths([".pre-commit-config.yaml"]),
    "pytest": check_pytest,
    "python": check_python,
    "sbatch": check_sbatch,
    "sif": run_sif,
}
