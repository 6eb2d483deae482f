"""Judges that are no models: the oracle with flips, leniency, invalid replies.

    judge = Simulated("sim_flip050", flip=50)      # rates per thousand

They test statistics and reports; the published simulations are these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sif_trainer.systems.jointcore.hashing import hash64
from sif_trainer.systems.jointcore.interview import AnyQuestion, Reply
from sif_trainer.systems.jointcore.memory import ids_of, mask_of
from sif_trainer.systems.jointcore.prompts import TerminalQuestion, meanings


@dataclass(frozen=True)
class Simulated:
    """Replies by hash of the task and the records whose values are as stored; the rates are per thousand."""

    name: str
    flip: int = 0
    invalid: int = 0
    lenient: bool = False

    def __call__(self, questions: Sequence[AnyQuestion]) -> list[Reply]:
        return [self._reply(question) for question in questions]

    def _reply(self, question: AnyQuestion) -> Reply:
        task = question.task
        terminal = isinstance(question, TerminalQuestion)
        visible = "" if isinstance(question, TerminalQuestion) else ",".join(map(str, ids_of(question.kept)))
        may_fail = not terminal or question.labels == "ab"
        if may_fail and hash64(self.name, task.key, visible) % 1000 < self.invalid:
            return None
        if isinstance(question, TerminalQuestion):
            wanted = "COMMIT" if question.decision == "EXECUTE" else "HALT"
        else:
            holds = task.sufficient(question.kept)
            if self.lenient:
                holds = 2 * (question.kept & mask_of(task.support)).bit_count() >= len(task.support)
            if hash64(self.name, "flip", task.key, visible) % 1000 < self.flip:
                holds = not holds
            wanted = task.action_when_sufficient if holds else task.action_when_insufficient
        return next(label for label, meaning in meanings(question).items() if meaning == wanted)
