"""One task's interview: every selector searches with the judge's replies, then what each kept is judged.

An interview is a generator: it yields the questions it needs next and is sent their replies, so that `ask_all` can
keep many interviews in flight and hand all their questions to an engine in one batch. A reply is a label, or None
when it is invalid (no label, or a prompt over the limit). Replies are cached per task by (omission, labels, kept
set) and shared by all methods; a cached reply still counts as a question of the method that asks.

    records = ask_all((interview(task, SELECTORS, 64) for task in model_tasks()), judge, in_flight=32)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sif_trainer.systems.jointcore.memory import ids_of
from sif_trainer.systems.jointcore.metrics import score
from sif_trainer.systems.jointcore.prompts import Question, TerminalQuestion, meanings
from sif_trainer.systems.jointcore.search import Kept, Search, Selection, Selector
from sif_trainer.systems.jointcore.tasks import Task

AnyQuestion: TypeAlias = Question | TerminalQuestion
Reply: TypeAlias = str | None
Judge: TypeAlias = Callable[[Sequence[AnyQuestion]], list[Reply]]
Interview: TypeAlias = Generator[list[AnyQuestion], list[Reply], dict[str, Any]]
INVALID = "INVALID"


class Replies:
    """The replies of one task, asked once each."""

    def __init__(self) -> None:
        self.known: dict[AnyQuestion, Reply] = {}

    def ask(self, questions: Iterable[AnyQuestion]) -> Generator[list[AnyQuestion], list[Reply], None]:
        """Get the replies that are not known yet."""
        missing = [question for question in dict.fromkeys(questions) if question not in self.known]
        if missing:
            self.known.update(zip(missing, (yield missing), strict=True))

    def action(self, question: AnyQuestion) -> str:
        """Return what a known reply means: an action, or INVALID."""
        reply = self.known[question]
        return INVALID if reply is None else meanings(question)[reply]


def interview(
    task: Task, selectors: Mapping[str, Selector], budget: int, omission: str = "unknown", labels: str = "boolean"
) -> Interview:
    """Select with every selector, judged by the replies alone, and return the task's record.

    Two sets are equivalent when both replies are valid and equal, so an invalid reference makes every deletion fail.
    """
    replies = Replies()

    def asked(kept: int) -> Question:
        return Question(task, kept, omission, labels)

    reference = asked(task.full)
    yield from replies.ask([reference])

    def unchanged(kept: int) -> bool:
        reply = replies.known[asked(kept)]
        return reply is not None and reply == replies.known[reference]

    searches = {name: select(task, budget) for name, select in selectors.items()}
    selections = yield from _side_by_side(searches, replies, asked, unchanged)
    finals = {name: asked(selection.kept) for name, (selection, _) in selections.items()}
    yield from replies.ask(finals.values())
    terminals = {name: TerminalQuestion(task, replies.action(final), labels) for name, final in finals.items()}
    yield from replies.ask(terminals.values())
    control = replies.action(reference)
    return {
        "index": task.index,
        "task": task.key,
        "control_action": control,
        "control_correct": control == task.action_when_sufficient,
        "num_replies": sum(isinstance(question, Question) for question in replies.known),
        "methods": {
            name: _outcome(task, selection, questions, unchanged, replies, finals[name], terminals[name])
            for name, (selection, questions) in selections.items()
        },
    }


def _side_by_side(
    searches: Mapping[str, Search],
    replies: Replies,
    asked: Callable[[int], Question],
    unchanged: Callable[[int], bool],
) -> Generator[list[AnyQuestion], list[Reply], dict[str, tuple[Selection, list[int]]]]:
    """Run the searches in step, their questions in one batch; return each selection with the sets it asked about."""
    done: dict[str, tuple[Selection, list[int]]] = {}
    questions: dict[str, list[int]] = {name: [] for name in searches}
    answers: dict[str, bool | None] = dict.fromkeys(searches)
    while True:
        for name, answer in list(answers.items()):
            try:
                # None starts a generator.
                questions[name].append(searches[name].send(answer))  # type: ignore[arg-type]
            except StopIteration as stop:
                kept: Kept = stop.value
                done[name] = Selection(kept.mask, len(questions[name]), kept.exhausted), questions[name]
                del answers[name]
        if not answers:
            return {name: done[name] for name in searches}
        yield from replies.ask(asked(questions[name][-1]) for name in answers)
        answers = {name: unchanged(questions[name][-1]) for name in answers}


def _outcome(
    task: Task,
    selection: Selection,
    questions: Sequence[int],
    unchanged: Callable[[int], bool],
    replies: Replies,
    final: Question,
    terminal: TerminalQuestion,
) -> dict[str, Any]:
    """Return one method's part of a task's record.

    `success` and `published_success` differ in the right answer: what the task calls for, or what the oracle makes
    of the kept set (so that a model which is wrong, then drops everything, succeeds).
    """
    against_truth = score(task, selection)
    action, committed = replies.action(final), replies.action(terminal)
    carried_out = committed == ("COMMIT" if action == "EXECUTE" else "HALT")
    right_for_kept = task.right_action(selection.kept)
    asked = [(kept, replace(final, kept=kept)) for kept in questions]
    num_right = sum(replies.action(question) == task.right_action(kept) for kept, question in asked)
    return {
        "retained": ids_of(selection.kept),
        "queries": selection.evaluations,
        "behaviour": unchanged(selection.kept),
        "sufficient": against_truth.sufficient,
        "minimum": against_truth.minimum,
        "savings": against_truth.savings,
        "recall": against_truth.recall,
        "cost_gap": against_truth.cost_gap,
        "final_action": action,
        "terminal": committed,
        "success": action == task.action_when_sufficient and carried_out,
        "published_final_correct": action == right_for_kept,
        "published_success": action == right_for_kept and carried_out,
        "num_invalid": sum(replies.known[question] is None for _, question in [*asked, (0, final)]),
        "reply_accuracy": num_right / len(asked) if asked else 1.0,
        "exhausted": selection.exhausted,
    }


def ask_all(interviews: Iterable[Interview], judge: Judge, in_flight: int) -> Iterator[dict[str, Any]]:
    """Hold up to `in_flight` interviews at once, asking their questions together; yield each record once complete."""
    waiting = iter(interviews)
    active: list[tuple[Interview, list[AnyQuestion]]] = []
    while True:
        while len(active) < in_flight and (new := next(waiting, None)) is not None:
            active.append((new, next(new)))
        if not active:
            return
        replies = iter(judge([question for _, questions in active for question in questions]))
        going_on = []
        for one, questions in active:
            try:
                going_on.append((one, one.send([next(replies) for _ in questions])))
            except StopIteration as stop:
                yield stop.value
        active = going_on
