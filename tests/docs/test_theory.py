"""docs/theory.md shows what `sif analyze --toy` prints, and names functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

from sif_trainer.analysis import toy
from sif_trainer.report.toy import toy_page

TEXT = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")


def test_the_table_is_the_commands() -> None:
    rows = [line for line in toy_page(toy.toy_results()).splitlines() if re.match(r"\| [\w ()]+ +\| ", line)]
    assert len(rows) == 6
    for row in rows:
        assert row in TEXT


def test_every_function_that_is_named_exists() -> None:
    names = [name for line in TEXT.splitlines() if line.count("|") == 4 for name in re.findall(r"`(\w+)`", line)]
    assert len(names) > 8 and all(hasattr(toy, name) for name in names), names
