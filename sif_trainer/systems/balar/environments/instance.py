"""One case with its secrets: what each user's simulator may read, and the right answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.parts import Case, Private


@dataclass(frozen=True)
class Instance:
    """A case, and what must not reach the agent."""

    case: Case
    secrets: Mapping[str, Private]
    """By user name: what that user knows."""
    role: str
    """How the users answer: the simulator's instruction, the same for all of them."""
    answer: Private
    grading: Literal["exact", "digits", "meaning"] = "exact"
    """How an answer is held against the right one; see `grading.py`."""

    def __post_init__(self) -> None:
        for user in self.case.users:
            if user.name not in self.secrets:
                raise UserError(f"case '{self.case.id}' does not say what '{user.name}' knows")
