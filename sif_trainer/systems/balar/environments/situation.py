"""AR-Bench situation puzzles: a strange scene is to be explained; its host answers questions about it.

Reads `data/sp/test.json` of the benchmark, and rows selected from it. There is no answer set: explanations are
compared by their meaning. A row's `index` is not unique in the benchmark, so cases are named by their place. The
paper's questions have the choices yes and no (`max_choices=2`).
"""

from __future__ import annotations

from typing import Any

from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.parts import Case, Private, User

ROLE = (
    "You host a situation puzzle and know its explanation. Answer the player's question truthfully from the "
    "explanation, in one short sentence that begins with yes or no where that is possible. Reveal nothing more."
)


def fits(row: Any) -> bool:
    """Whether this is a row of the benchmark's file, or one selected from it."""
    return isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("surface", "bottom"))


def read(row: dict[str, Any], number: int) -> Instance:
    """Return the case of a row."""
    host = User("host", "The host of the puzzle, who knows its explanation and answers truthfully.")
    return Instance(
        case=Case(
            id=str(row.get("uid", f"situation-{number}")),
            task=f"Explain what is behind this scene: {row['surface']}",
            context="This is a situation puzzle: the scene is true, and there is a story that explains it.",
            users=(host,),
        ),
        secrets={host.name: Private(f"The scene: {row['surface']}\n\nIts explanation: {row['bottom']}")},
        role=ROLE,
        answer=Private(row["bottom"]),
        grading="meaning",
    )
