"""Conformal information pursuit: ask what is expected to leave the fewest answers in a calibrated set.

The set after k questions holds the options whose probability reaches a threshold, which is set on other cases so that
the right option is inside with the chance 1 - alpha (split conformal, one threshold per k). Needs options and an
engine with label scores. The paper estimates with several samples per query; here each imagined reply is weighed by
its label score, and the asking stops when the set is down to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.baselines.dialogue import ASK, Dialogue
from sif_trainer.systems.balar.parts import Exchange, Log, Question, User, plain

WHICH = "Which option is the right answer to the task?"
REPLY = "{user} is asked: {question}\nWhat would the reply be?"


def conformal_pursuit(dialogue: Dialogue) -> None:
    """Ask until the set holds one option."""
    check(dialogue)
    while dialogue.goes_on and _set_size(dialogue, _probabilities(dialogue, [dialogue.log])[0], len(dialogue.log)) > 1:
        user = dialogue.pick_user()
        found = dialogue.candidates(user)
        sizes = [_expected_log_size(dialogue, user, text) for text in found]
        dialogue.ask(user, found[sizes.index(min(sizes))])


def check(dialogue: Dialogue) -> None:
    """Raise `UserError` where the method cannot work."""
    if dialogue.case.options is None:
        raise UserError("conformal_pursuit needs cases with options; leave it out of methods")
    if not dialogue.scores:
        raise UserError("conformal_pursuit needs label scores; set label_only, or leave it out of methods")


def right_probabilities(dialogue: Dialogue, right: str) -> list[float]:
    """Return the right option's probability after 0, 1, ... questions of a calibration case, asked as they come.

    Nothing for a case whose right answer is none of its options.
    """
    check(dialogue)
    options = [plain(option) for option in dialogue.case.options or ()]
    if plain(right) not in options:
        return []
    place = options.index(plain(right))
    found = [_probabilities(dialogue, [dialogue.log])[0][place]]
    while dialogue.goes_on:
        user = dialogue.pick_user()
        dialogue.ask(user, dialogue.write(ASK.format(user=user.name)))
        found.append(_probabilities(dialogue, [dialogue.log])[0][place])
    return found


def threshold(probabilities: Sequence[float], alpha: float) -> float:
    """Return the lowest probability that stays in the set: the conformal quantile over calibration cases.

    With too few cases for alpha it is 0, and every option stays.
    """
    rank = math.floor(alpha * (len(probabilities) + 1))
    return sorted(probabilities)[rank - 1] if rank else 0.0


def _expected_log_size(dialogue: Dialogue, user: User, text: str) -> float:
    choices = dialogue.choices
    (chances,) = dialogue.weigh([REPLY.format(user=user.name, question=text)], choices)
    logs = [[*dialogue.log, Exchange(Question(text, choices), user, choice)] for choice in choices]
    rows = _probabilities(dialogue, logs)
    num_told = len(dialogue.log) + 1
    return sum(p * math.log(max(1, _set_size(dialogue, row, num_told))) for p, row in zip(chances, rows, strict=True))


def _probabilities(dialogue: Dialogue, logs: Sequence[Log]) -> list[list[float]]:
    assert dialogue.case.options is not None
    return dialogue.weigh([WHICH] * len(logs), dialogue.case.options, logs)


def _set_size(dialogue: Dialogue, row: Sequence[float], num_told: int) -> int:
    thresholds = dialogue.settings.thresholds
    lowest = thresholds[min(num_told, len(thresholds) - 1)]
    return sum(p >= lowest for p in row)
