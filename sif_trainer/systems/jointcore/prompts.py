"""The wording of the model stage, and what each label means. What it must hold is published, the words are ours.

    question = Question(task, kept=task.full)
    messages(question)                 # two chat messages
    action_of(question, "YES")         # EXECUTE or HOLD

Four ways to show that a record was omitted, and three pairs of labels. "pending" and "unknown" keep the line and
replace the value; "deletion" removes the line; "counterfactual" states another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sif_trainer.systems.jointcore.hashing import hash64
from sif_trainer.systems.jointcore.oracle import quorum
from sif_trainer.systems.jointcore.tasks import CASE_FIELDS, Record, Task

OMISSIONS = ("unknown", "deletion", "pending", "counterfactual")
LABELS = {"boolean": ("YES", "NO"), "direct": ("EXECUTE", "HOLD"), "ab": ("A", "B")}
TERMINAL_LABELS = {"boolean": ("COMMIT", "HALT"), "direct": ("COMMIT", "HALT"), "ab": ("A", "B")}
COUNTERFACTUAL = {"ALLOW": "BLOCK", "BLOCK": "ALLOW", "ON": "OFF", "OFF": "ON"}

SYSTEM = "You check whether stored records support an action. Use nothing but the records shown. Reply with one label."
SETTING = "Area: {domain}. The decision comes {horizon} step(s) after the records were stored."
PLACEHOLDERS = (
    "A value of UNKNOWN, PENDING or INVALID is no value: it never meets a requirement, and neither does a record that "
    "is not listed."
)
DISTRACTORS = "Records of any type that the rule does not name have no influence, whatever they say."
HEADER = "Stored records (id | name | type | value):"
RECORD = "m{id} | {name} | {type} | {value}"
RULES = {
    "single_variable": "the record authorization has the value ALLOW",
    "redundant_or": "at least one record of type approval has the value ALLOW",
    "threshold": "at least {quorum} of the records of type approval have the value ALLOW",
    "case": "each of these records has the value given here: {fields}",
    "synergy_xor": ("all {size} records of type key_flag are listed with ON or OFF, and exactly one of them is ON"),
    "multiple_minimal_sets": (
        "all {half} record(s) of type channel_a have the value VALID, "
        "or all {half} record(s) of type channel_b have the value VALID"
    ),
    "harmful_stale": (
        "the record current_authorization has the value ALLOW{supports}, "
        "and the record stale_policy has the value BLOCK"
    ),
}
STALE_SUPPORTS = ", all {num} records of type support have the value VALID"
ASK = {
    "boolean": "Rule: {rule}.",
    "direct": "Rule: the action is {sufficient} if and only if {rule}; otherwise it is {insufficient}.",
    "ab": "Rule: the action is {sufficient} if and only if {rule}; otherwise it is {insufficient}.",
}
INSTRUCTION = {
    "boolean": "Do the records meet the rule? Reply YES or NO.",
    "direct": "Which action follows? Reply EXECUTE or HOLD.",
    "ab": "Which action follows? A means {a}, B means {b}. Reply A or B.",
}
TERMINAL = "The decision was: {decision}. A decision to EXECUTE is carried out; with any other nothing may be done."
TERMINAL_INSTRUCTION = {
    "boolean": "Should the system COMMIT or HALT? Reply COMMIT or HALT.",
    "direct": "Should the system COMMIT or HALT? Reply COMMIT or HALT.",
    "ab": "What should the system do? A means {a}, B means {b}. Reply A or B.",
}

Message: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class Question:
    """Which action follows from the records of mask `kept`, shown in one of the ways above."""

    task: Task
    kept: int
    omission: str = "unknown"
    labels: str = "boolean"


@dataclass(frozen=True)
class TerminalQuestion:
    """COMMIT or HALT after a decision: EXECUTE, HOLD, or INVALID where the reply had no meaning."""

    task: Task
    decision: str
    labels: str = "boolean"


def options(question: Question | TerminalQuestion) -> tuple[str, ...]:
    """Return the question's labels in scoring order: a tie goes to the first."""
    return (TERMINAL_LABELS if isinstance(question, TerminalQuestion) else LABELS)[question.labels]


def meanings(question: Question | TerminalQuestion) -> dict[str, str]:
    """Return what each label stands for: EXECUTE or HOLD, and for a terminal question COMMIT or HALT."""
    task, labels = question.task, options(question)
    if isinstance(question, TerminalQuestion):
        straight, name, pair = labels == ("COMMIT", "HALT"), "terminal-ab-map", ("COMMIT", "HALT")
    elif question.labels == "boolean":
        return dict(zip(labels, (task.action_when_sufficient, task.action_when_insufficient), strict=True))
    else:
        straight, name, pair = question.labels == "direct", "ab-map", ("EXECUTE", "HOLD")
    if not straight and hash64(task.key, name) % 2:
        pair = pair[::-1]
    return dict(zip(labels, pair, strict=True))


def rule(task: Task) -> str:
    """Return the family's condition in words; every number that it depends on is stated."""
    size = len(task.support)
    fields = ", ".join(f"{name} = {value}" for name, value in CASE_FIELDS[:size])
    supports = STALE_SUPPORTS.format(num=size - 2) if size > 2 else ""
    words = RULES.get(task.family, RULES["case"])
    return words.format(quorum=quorum(size), fields=fields, size=size, half=size // 2, supports=supports)


def shown_records(question: Question) -> list[Record]:
    """Return the records as the prompt shows them, in display order; every omitted record is altered."""
    shown = []
    for i in question.task.display_order:
        record = question.task.records[i]
        if not question.kept >> i & 1:
            if question.omission == "deletion":
                continue
            record = record._replace(value=_omitted_value(record.value, question.omission))
        shown.append(record)
    return shown


def _omitted_value(value: str, omission: str) -> str:
    if omission == "counterfactual":
        return COUNTERFACTUAL.get(value, "INVALID")
    return {"unknown": "UNKNOWN", "pending": "PENDING"}[omission]


def messages(question: Question | TerminalQuestion) -> list[Message]:
    """Return the system and the user message of a question."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n".join(_lines(question))}]


def _lines(question: Question | TerminalQuestion) -> list[str]:
    task, (a, b) = question.task, meanings(question).values()
    if isinstance(question, TerminalQuestion):
        instruction = TERMINAL_INSTRUCTION[question.labels].format(a=a, b=b)
        return [TERMINAL.format(decision=question.decision), instruction]
    sufficient, insufficient = task.action_when_sufficient, task.action_when_insufficient
    return [
        SETTING.format(domain=task.condition.domain.replace("_", "-"), horizon=task.condition.horizon),
        ASK[question.labels].format(rule=rule(task), sufficient=sufficient, insufficient=insufficient),
        PLACEHOLDERS,
        DISTRACTORS,
        HEADER,
        *(RECORD.format(**record._asdict()) for record in shown_records(question)),
        INSTRUCTION[question.labels].format(a=a, b=b),
    ]
