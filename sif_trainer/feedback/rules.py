"""The registry of feedback rules: one name in a recipe (`feedback: …`), one small file each, one signature."""

from __future__ import annotations

from collections.abc import Callable

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.intuitor import intuitor
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.sif import SIFRule, sif

Feedback = Callable[[Groups, SIFRule, float], GroupOutcome]

RULES: dict[str, Feedback] = {"sif": sif, "intuitor": intuitor}
