"""Accuracy as a monitor of training: TRL's signature of a reward function, to be logged with weight zero.

    trainer = SIFTrainer(..., reward_funcs=[accuracy_monitor(answers, rule="math")])

The answers live in the closure alone. Prompts carry ids, so that no column of the data set, and nothing the trainer
holds, shows a reference answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.tasks.grade import grade_many
from sif_trainer.tasks.rules import RULES
from sif_trainer.tasks.verdict import Item

if TYPE_CHECKING:
    from sif_trainer.data.answers import Answer

Completion = str | Sequence[Mapping[str, Any]]


def accuracy_monitor(answers: Mapping[str, Answer], rule: str) -> Callable[..., list[float | None]]:
    """A function `accuracy(prompts, completions, id, **columns)` that grades each completion by its prompt's id.

    It returns 1.0 for correct, 0.0 for anything else, None where the id has no answer. Raises `UserError` for an
    unknown rule.
    """
    if rule not in RULES:
        raise UserError(f"there is no rule '{rule}'{nearest(rule, RULES)}; rules: {', '.join(RULES)}")

    def accuracy(
        prompts: Sequence[Any], completions: Sequence[Completion], id: Sequence[str], **columns: Any
    ) -> list[float | None]:
        known = [index for index, name in enumerate(id) if str(name) in answers]
        references = [answers[str(id[index])] for index in known]
        grades = grade_many(
            Item(_text(completions[index]), reference.gold, rule, "response", reference.fields)
            for index, reference in zip(known, references, strict=True)
        )
        scores: list[float | None] = [None] * len(completions)
        for index, grade in zip(known, grades, strict=True):
            scores[index] = float(grade.verdict == "correct")
        return scores

    return accuracy


def _text(completion: Completion) -> str:
    """The reply as text: the contents of the assistant's messages when it comes as messages."""
    if isinstance(completion, str):
        return completion
    return "\n".join(
        str(message.get("content") or "") for message in completion if message.get("role", "assistant") == "assistant"
    )
