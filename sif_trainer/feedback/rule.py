"""What a rule is: a function from groups to an outcome, and what it must be given.

A rule of your own is one file with such a function, or a `Rule` around it: docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings

Decide = Callable[[Groups, FeedbackSettings], GroupOutcome]


@dataclass(frozen=True)
class Rule:
    """One way to turn a group's responses into rewards.

    Attributes:
        decide: the function.
        reads: optional fields of `Groups` that it reads; the trainer computes only what is named here.
        required: settings that must be given.
        needs_windows: whether responses that are too short for the windows are left out, so that a completion limit
            below L_min leaves nothing to learn from.
    """

    decide: Decide
    reads: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    needs_windows: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.decide, type):
            raise ValueError(
                f"{self.decide.__name__} is a class, and a rule is a function from groups and settings to a "
                "GroupOutcome (docs/extending.md); name a function, or an object of the class that can be called"
            )

    @property
    def reads_certainty_only(self) -> bool:
        """Whether token certainties are all it needs, as `sif vote` has them."""
        return not self.reads


def complaint(found: object, groups: Groups) -> str | None:
    """What is wrong with a rule's result on these groups; None where it is an outcome of theirs.

    A rule of a user's own can return anything, and the libraries would say so far from here and at length.
    """
    if not isinstance(found, GroupOutcome):
        return f"it returned {type(found).__name__}, not a GroupOutcome as standardise makes (docs/extending.md)"
    shape = tuple(groups.usable.shape)
    for name in ("reward", "advantage", "keep"):
        if tuple(getattr(found, name).shape) != shape:
            return f"its {name} has the shape {tuple(getattr(found, name).shape)}, not {shape}, a number per response"
    return None
