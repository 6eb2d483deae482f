"""docs/coming_from.md and docs/faq.md: every name of ours exists, and the defaults that differ are as they say."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
from trl import GRPOConfig, GRPOTrainer

from sif_trainer.cli.adapt import AdaptRecipe
from sif_trainer.cli.main import COMMANDS
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.results import Scores
from sif_trainer.feedback.rules import RULES
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.factory import TrainRecipe
from sif_trainer.trainer.trainer import SIFTrainer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
FAQ = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
RECORDS = "".join(
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("benchmarks", "evaluation", "launch", "metrics", "recipes")
)
SCHEMAS = (EvalRecipe, AdaptRecipe, TrainRecipe, SIFConfig)
SETTINGS = {field.name: field for schema in SCHEMAS for field in fields(schema)}
OURS = {*SETTINGS, *RULES, *(field.name for field in fields(Scores)), *inspect.signature(SIFTrainer).parameters}
VALUES = {"warn", "stop", "rollback", "kept", "hub:", "sequence_mask"}  # of settings; `hub:` begins one
OPTIONS = {"--run", "--export lm-eval"}


def rows(header: str) -> list[list[str]]:
    """The cells of every row of the table under a header."""
    table = TEXT.split(f"{header}\n", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def known(name: str) -> bool:
    """Whether a name is a setting, a rule, a command, an option, a test, or what the pages on records list."""
    if name.startswith("sif "):
        return name.split()[1] in COMMANDS
    key, _, value = name.removesuffix(" FOLDER").partition(": ")
    if key in OURS | VALUES | OPTIONS:
        return key != "feedback" or not value or value in RULES
    file, _, test = name.partition("::")
    return (bool(test) and f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")) or (
        re.search(rf"(`|\*\*|/){re.escape(name)}(`|\*\*)", RECORDS) is not None
    )


@pytest.mark.parametrize("program", ["TRL", "verl", "TTRL", "lm-eval"])
def test_every_name_of_ours_exists(program: str) -> None:
    found = rows(f"| {program} | here | note |")
    assert len(found) > 7
    assert [name for _, here, _ in found for name in names(here) if not known(name)] == []


def test_every_name_of_trl_exists() -> None:
    theirs = {field.name for field in fields(GRPOConfig)} | set(inspect.signature(GRPOTrainer).parameters)
    assert {name for row in rows("| TRL | here | note |") for name in names(row[0])} <= theirs


def test_the_defaults_are_those_of_the_two_programs() -> None:
    theirs = {field.name: field.default for field in fields(GRPOConfig)}
    table = rows("| setting | TRL | here | why |")
    assert len(table) > 10
    for setting, there, here, _ in table:
        name = setting.strip("`")
        assert there.strip("`") == str(theirs[name]), f"{name} of TRL is {theirs[name]}"
        assert here.strip("`") == str(SETTINGS[name].default), f"{name} here is {SETTINGS[name].default}"


def test_every_name_of_the_questions_exists() -> None:
    found = names(FAQ)
    assert len(found) > 60
    assert [name for name in found if not known(name)] == []
