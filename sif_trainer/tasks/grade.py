r"""Grade answers: `grade(r"\frac12", "0.5")`, or many at once with `grade_many`.

The road of an answer: it is taken out of the reply (`rules.extract`), compared as text after spelling is tidied (most
correct answers end here, in microseconds), screened for strings that would hang a parser (`screen`), and otherwise
compared by the benchmark's rule (`rules.judge`) in a worker process with a time and a memory limit (`workers`).

No text raises, hangs or crashes the run: the worst verdict is "unparsable".
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterable
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.tasks.extract import last_box
from sif_trainer.tasks.rules import RULES, extract
from sif_trainer.tasks.screen import explosive, unsafe_text
from sif_trainer.tasks.spelling import canonical
from sif_trainer.tasks.verdict import Grade, Item, Kind
from sif_trainer.tasks.workers import Workers

_SHOWN = 1000  # characters of a rejected answer that a grade repeats
_pools: dict[int, Workers] = {}  # process id -> pool: a forked child starts its own


def grade(prediction: str, gold: str, rule: str = "math", kind: Kind = "response", **fields: Any) -> Grade:
    """Grade one answer (`kind="answer"`: content of the final box) or whole reply (`kind="response"`) against `gold`.

    `rule` is one of `RULES`; `fields` are what the rule takes: `unit`, `tolerance`, `type`, `options`, `rtol`.
    """
    return grade_many([Item(prediction, gold, rule, kind, fields)])[0]


def grade_many(items: Iterable[Item]) -> list[Grade]:
    """Grades in the order of `items`. Equal comparisons are made once. Unknown rules or kinds raise a `UserError`."""
    grades: dict[int, Grade] = {}
    todo: dict[str, tuple[tuple[str, str, str, dict[str, Any]], list[int]]] = {}
    for index, item in enumerate(items):
        check(item)
        gold = last_box(item.gold) or item.gold
        done, answer = _quick(item, gold)
        if done is not None:
            grades[index] = done
        else:
            request = (item.rule, answer, gold, dict(item.fields))
            todo.setdefault(json.dumps(request, sort_keys=True, default=str), (request, []))[1].append(index)
    compared = _workers().run([request for request, _ in todo.values()]) if todo else []
    for result, (_, indices) in zip(compared, todo.values(), strict=True):
        grades.update(dict.fromkeys(indices, result))
    return [grades[index] for index in range(len(grades))]


def check(item: Item) -> None:
    """Raise a `UserError` for an item whose rule or kind does not exist or whose texts are not text."""
    if item.rule not in RULES:
        raise UserError(f"there is no rule '{item.rule}'{nearest(str(item.rule), RULES)}; rules: {', '.join(RULES)}")
    if item.kind not in ("answer", "response"):
        raise UserError(f"kind is '{item.kind}'; it must be 'answer' (content of the box) or 'response' (whole reply)")
    for name, text in (("pred", item.prediction), ("gold", item.gold)):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise UserError(f"{name} must be a text, not the {kind} {text!r:.60}; write it as '{text!s:.60}'")


def _quick(item: Item, gold: str) -> tuple[Grade | None, str]:
    """The grade where no comparison is needed, else None and the extracted answer."""
    answer = extract(item)
    if answer is not None and not answer.isascii():
        answer = answer.encode("utf-8", "replace").decode()  # lone surrogates could not be written out
    if answer is None or not answer.strip():
        return Grade.unparsable(None, "no answer found"), ""
    if not gold.strip():
        return Grade.unparsable(answer, "the reference is empty"), answer
    if " ".join(answer.split()) == " ".join(gold.split()):
        return Grade.correct(answer[:_SHOWN], "same text"), answer
    for text, whose in ((answer, ""), (gold, "the reference is ")):
        problem = unsafe_text(text)
        if problem:
            return Grade.unparsable(answer[:_SHOWN], whose + problem), answer
    if canonical(answer) == canonical(gold):
        return Grade.correct(answer, "same text"), answer
    for text, whose in ((answer, ""), (gold, "the reference has ")):
        problem = explosive(text)
        if problem:
            return Grade.unparsable(answer, whose + problem), answer
    return None, answer


def _workers() -> Workers:
    """The pool of this process, started on first use."""
    if os.getpid() not in _pools:
        _pools.clear()
        _pools[os.getpid()] = Workers(num_workers=min(4, os.cpu_count() or 1))
        atexit.register(_end_workers, os.getpid())
    return _pools[os.getpid()]


def _end_workers(process_id: int) -> None:
    """End the pool at exit, in the process that started it and not in its forks."""
    if os.getpid() == process_id:
        _pools[process_id].close()
