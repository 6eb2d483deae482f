"""Which answers of one problem are the same answer: the classes that maj@n and rules that vote by answer count in.

    answer_classes([Ballot(["1/2", "0.5", None, "2"], rule="math", fields={})])     # [[0, 0, None, 1]]
    SIFTrainer(..., args=SIFConfig(feedback="majority"), answers=AnswerReader("math"))

Answers are compared with one another by the benchmark's own rule, never with the reference, so that the vote is what
it would be without one. Each is put into the class of the first answer that the rule accepts it for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.tasks.grade import grade_many
from sif_trainer.tasks.rules import RULES
from sif_trainer.tasks.rules import extract as extract_answer
from sif_trainer.tasks.verdict import Item


@dataclass(frozen=True)
class Ballot:
    """The answers of one problem's samples (None: no answer, no vote), and the rule that says which are equal."""

    answers: Sequence[str | None]
    rule: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def answer_classes(ballots: Sequence[Ballot]) -> list[list[int | None]]:
    """Return a class number, or None, for each answer of each ballot; equal numbers are equal answers.

    All ballots go forward together, one class a round, so that the grader's workers are kept busy.
    """
    found: list[dict[str, int]] = [{} for _ in ballots]
    open_answers = [
        list(dict.fromkeys(answer for answer in ballot.answers if answer is not None)) for ballot in ballots
    ]
    number = 0
    while any(open_answers):
        items, places = [], []
        for place, (ballot, answers) in enumerate(zip(ballots, open_answers, strict=True)):
            if answers:
                found[place][answers[0]] = number
                for answer in answers[1:]:
                    items.append(Item(answer, answers[0], ballot.rule, "answer", ballot.fields))
                    places.append(place)
        for place, item, grade in zip(places, items, grade_many(items), strict=True):
            if grade.verdict == "correct":
                found[place][item.prediction] = number
        open_answers = [
            [answer for answer in answers if answer not in known]
            for answers, known in zip(open_answers, found, strict=True)
        ]
        number += 1
    return [
        [None if answer is None else known[answer] for answer in ballot.answers]
        for ballot, known in zip(ballots, found, strict=True)
    ]


@dataclass(frozen=True)
class AnswerReader:
    """Finds final answers in responses and classes them, by one grading rule; it has no reference answers.

    Raises UserError for an unknown rule.
    """

    rule: str

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UserError(f"there is no rule '{self.rule}'{nearest(self.rule, RULES)}; rules: {', '.join(RULES)}")

    def extract(self, text: str) -> str | None:
        """The final answer of a response, or None."""
        return extract_answer(Item(text, "", self.rule, "response"))

    def classes(self, groups: Sequence[Sequence[str | None]]) -> list[list[int | None]]:
        """A class number, or None, for each answer of each group."""
        return answer_classes([Ballot(group, self.rule) for group in groups])
