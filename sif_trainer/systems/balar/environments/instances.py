"""Cases with what the agent may not see, and the files that they come from.

    instances = load_instances("detective", "data/dc/test.json")
    agent_sees = instances[0].case

No data come with the project: a loader reads the benchmark's own file, or one whose rows were selected from it. A file
of another benchmark is refused, and the one that it looks like is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.systems.balar.environments import detective, guessing, icraft, situation
from sif_trainer.systems.balar.environments.instance import Instance

Read: TypeAlias = Callable[[Any, int], Instance]


class DataSet(NamedTuple):
    """How a benchmark's rows are told from others', and read."""

    title: str
    fits: Callable[[Any], bool]
    read: Read


DATA_SETS: Mapping[str, DataSet] = {
    "detective": DataSet("AR-Bench detective cases", detective.fits, detective.read),
    "situation": DataSet("AR-Bench situation puzzles", situation.fits, situation.read),
    "guessing": DataSet("AR-Bench number guessing", guessing.fits, guessing.read),
    "icraft": DataSet("iCraft-MD (MediQ)", icraft.fits, icraft.read),
}


def load_instances(name: str, path: str | Path) -> list[Instance]:
    """Read a data set's file: a JSON list, or JSON lines.

    Raises:
        UserError: an unknown data set, a file that cannot be read, a row of another benchmark or without a part, or a
            case that no agent can be given (see `Case`), each with its place.
    """
    if name not in DATA_SETS:
        raise UserError(f"no data set '{name}'{nearest(name, DATA_SETS)}; there are {', '.join(DATA_SETS)}")
    data_set = DATA_SETS[name]
    instances = []
    for number, row in enumerate(_rows(Path(path))):
        where = f"{path}, row {number + 1}"
        if not data_set.fits(row):
            other = next((key for key, known in DATA_SETS.items() if known.fits(row)), None)
            hint = (
                f"it looks like {DATA_SETS[other].title}: data_set={other}" if other else "give that benchmark's file"
            )
            raise UserError(f"{where}: not a row of {data_set.title}; {hint}")
        try:
            instances.append(data_set.read(row, number))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise UserError(
                f"{where}: not a complete row of {data_set.title} ({type(error).__name__}: {error})"
            ) from error
    if not instances:
        raise UserError(f"{path} holds no case; give the benchmark's file")
    return instances


def _rows(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    try:
        rows = json.loads(text)
    except ValueError:
        try:
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise UserError(f"{path}: neither a JSON list nor JSON lines: {error}") from error
    return rows if isinstance(rows, list) else [rows]
