"""docs/rules.md names every rule and setting; the rules of docs/extending.md run as they stand there."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from sif_trainer.cli.main import main
from sif_trainer.feedback.rules import RULES, find_rule
from sif_trainer.feedback.settings import FeedbackSettings

ROOT = Path(__file__).parents[2]
RULES_PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
sys.path.insert(0, str(ROOT / "tests" / "feedback"))


def test_every_rule_has_its_row_and_every_setting_its_mention() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", RULES_PAGE, re.MULTILINE)
    assert set(rows) == set(RULES) | {"feedback"} and len(rows) == len(RULES) + 1
    windows = {"num_windows", "window_size", "min_stride", "advantage_epsilon", "feedback"}
    for field in fields(FeedbackSettings):
        assert field.name in windows or f"`{field.name}`" in RULES_PAGE, field.name


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    first, second, *_ = re.findall(r"```python\n(.*?)```", EXTENDING, re.S)
    (tmp_path / "longest_sure.py").write_text(first)
    (tmp_path / "calm.py").write_text(second)
    monkeypatch.chdir(tmp_path)
    given, answered = (
        re.search(fence, EXTENDING, re.S)[1] for fence in (r"<<'END'\n(.*?)END\n", r"```jsonl\n(.*?)```")
    )
    (tmp_path / "certainties.jsonl").write_text(given)
    assert main(["vote", "certainties.jsonl", "--rule", "longest_sure.py:longest_sure"]) == 0
    assert capsys.readouterr().out == answered
    rows = [("a", [5, 5, 5]), ("a", [6, 6]), ("a", [1] * 9), ("b", [3]), ("b", [3])]
    (tmp_path / "certainties.jsonl").write_text(
        "".join(json.dumps({"group": group, "certainty": values}) + "\n" for group, values in rows)
    )
    assert main(["vote", "certainties.jsonl", "--rule", "longest_sure.py:longest_sure"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["reward"] for line in lines] == [0, 1, 0, 0, 0]  # the longest of those above the median of 5
    assert [line["keep"] for line in lines] == [True, True, True, False, False]

    from batches import batch

    rule = find_rule("calm.py:calm")
    groups = batch(1)
    outcome = rule.decide(groups, FeedbackSettings())
    assert rule.reads == {"answer", "entropy_mean"}
    assert outcome.keep.equal(groups.usable)
    agree = groups.answer == groups.answer.mode(-1, keepdim=True).values
    assert outcome.reward[groups.usable].equal((-groups.entropy_mean * agree)[groups.usable])
