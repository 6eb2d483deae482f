"""Is the answer right? Exact texts, digits, or, for explanations, what each says about the other.

    grade(instance, "Clara Mitchell", judge=None)         # {"correct": True}

An explanation is judged in both directions: does one imply the other, contradict it, or neither? Strictly right is an
implication both ways; right (the paper's non-strict measure) is no contradiction and not twice neither. The paper lets
the agent's own model judge; a recipe may name another (`judge`).
"""

from __future__ import annotations

import re
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.parts import plain
from sif_trainer.systems.balar.speaker import Speaker, chat, likeliest

CONTRADICTION, NEUTRAL, ENTAILMENT = range(3)
RELATIONS = ("the first contradicts the second", "neither", "the first implies the second")
ROLE = "You compare two explanations of one scene, by their meaning and not by their words."


def grade(instance: Instance, answer: str, judge: Speaker | None) -> dict[str, Any]:
    """Return `correct` and, where a judge was asked, `strictly_correct` and both relations (0, 1, 2).

    Raises:
        UserError: the case is judged by meaning and there is no judge.
    """
    right = instance.answer.reveal()
    if instance.grading == "exact":
        return {"correct": plain(answer) == plain(right)}
    if instance.grading == "digits":
        return {"correct": re.sub(r"\D", "", answer)[-4:] == right}
    if judge is None:
        raise UserError("explanations need a judge; name a model as judge=...")
    pairs = [(answer, right), (right, answer)]
    prompts = [
        chat(ROLE, f"{instance.case.task}\n\nFirst: {first}\n\nSecond: {second}\n\nHow do they relate?")
        for first, second in pairs
    ]
    there, back = map(likeliest, judge.pick(prompts, [RELATIONS] * 2))
    return {"correct": lenient(there, back), "strictly_correct": strict(there, back), "relations": [there, back]}


def strict(there: int, back: int) -> bool:
    """Whether each explanation implies the other."""
    return there == back == ENTAILMENT


def lenient(there: int, back: int) -> bool:
    """Whether neither contradicts the other, and at least one implies the other."""
    return CONTRADICTION not in (there, back) and (there, back) != (NEUTRAL, NEUTRAL)
