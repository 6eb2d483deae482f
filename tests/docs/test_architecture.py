"""docs/architecture.md: its import table is the one that tests/architecture keeps, and every room has a row."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "architecture"))
from test_imports import MAY_IMPORT

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows(header: str) -> dict[str, list[str]]:
    """From the first cell of every row of the table that begins like this to its other cells."""
    table = TEXT.split(header, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {first.strip("`"): rest for first, *rest in cells}


def test_the_import_table_is_the_one_that_is_kept() -> None:
    table = rows("| part |")
    for room, allowed in MAY_IMPORT.items():
        row = table["systems/*" if room.startswith("systems.") else room]
        assert room == "cli" or set(re.findall(r"`([\w.]+)`", row[0])) == allowed, room


def test_every_room_has_a_row() -> None:
    rooms = {path.name for path in (ROOT / "sif_trainer").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert rooms <= set(rows("| room |"))
