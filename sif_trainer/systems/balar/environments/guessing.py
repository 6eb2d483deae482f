"""AR-Bench number guessing: four different digits, and a host who says how a guess compares with them.

Reads a JSON list of secrets such as `"4071"`. The host is a rule, not a model: it compares the first group of four
different digits in a question, and passes over a question without one. The benchmark is not in the paper; ten values
per dimension need `max_values=10`, and answers come in fourteen kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.parts import Case, Private, Question, Skip, User, UserReply

ROLE = "You compare guesses with a secret number."

HOST = User("host", "The host knows the number and compares any guess of four different digits with it.")


def fits(row: Any) -> bool:
    """Whether this is a secret: four different digits as a text."""
    return isinstance(row, str) and re.fullmatch(r"\d{4}", row) is not None and len(set(row)) == 4


def read(row: str, number: int) -> Instance:
    """Return the case of a secret."""
    return Instance(
        case=Case(
            id=f"guessing-{number}",
            task="Which number of four different digits is the secret? Answer with its digits.",
            context=(
                "A question guesses a number of four different digits, such as: How does 0123 compare? The answer "
                "says how many of its digits stand in the right place, and how many are in the number elsewhere."
            ),
            users=(HOST,),
        ),
        secrets={HOST.name: Private(row)},
        role=ROLE,
        answer=Private(row),
        grading="digits",
    )


class GuessingHost:
    """The environment: answers by comparing digits."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._secrets = {instance.case.id: instance.secrets[HOST.name] for instance in instances}

    def ask(self, case: Case, user: User, question: Question, free: bool) -> UserReply:
        guesses = [digits for digits in re.findall(r"(?<!\d)\d{4}(?!\d)", question.text) if fits(digits)]
        if not guesses:
            return Skip()
        right, elsewhere = compare(self._secrets[case.id].reveal(), guesses[0])
        if free:
            return f"{right} in the right place, {elsewhere} in another place"
        wanted = [str(right), str(elsewhere)]
        found = (choice for choice in question.choices if re.findall(r"\d+", choice) == wanted)
        return next(found, Skip())


def compare(secret: str, guess: str) -> tuple[int, int]:
    """Return how many digits of the guess stand where the secret has them, and how many stand elsewhere in it."""
    right = sum(a == b for a, b in zip(secret, guess, strict=True))
    return right, len(set(secret) & set(guess)) - right
