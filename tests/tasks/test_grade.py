"""The entry points: verdicts, bad rules, batches, cached comparisons, a forked process."""

from __future__ import annotations

import atexit
import os

import pytest

from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.grade import grade, grade_many
from sif_trainer.tasks.verdict import Grade, Item


def test_a_grade_says_what_was_read_and_why() -> None:
    assert grade(r"so \boxed{\frac12}", "0.5") == Grade(1.0, "correct", r"\frac12", "equal")
    assert grade("7", "7", kind="answer") == Grade(1.0, "correct", "7", "same text")
    assert grade("I cannot say why,\nnor how", "7") == Grade(0.0, "unparsable", None, "no answer found")
    assert grade(r"\frac{1}{", "7", kind="answer").verdict == "unparsable"
    assert grade("8", "7", kind="answer").verdict == "wrong"


def test_partial_credit_is_no_correct_verdict() -> None:
    partial = grade("AB", "ABD", "jeebench", "answer", type="MCQ(multiple)")
    assert (partial.score, partial.verdict, partial.extracted) == (0.5, "wrong", "AB")


def test_an_empty_or_unreadable_reference_gives_no_credit() -> None:
    assert grade("7", " ", kind="answer") == Grade(0.0, "unparsable", "7", "the reference is empty")
    assert grade("7", "\\begin{array} {", kind="answer").score == 0.0
    assert grade("7", "the set of all widgets", "scibench", "answer").score == 0.0


def test_a_boxed_reference_stands_for_its_content() -> None:
    assert grade("6", r"The number of colorings is \(\boxed{6}\).", kind="answer").score == 1.0


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Item("1", "1", "maths"), "no rule 'maths'; did you mean 'math'"),
        (Item("1", "1", kind="reply"), "kind is 'reply'"),  # type: ignore[arg-type]
        (Item("1", 1), "gold must be a text, not the int 1; write it as '1'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_graded_is_named(item: Item, message: str) -> None:
    with pytest.raises(UserError, match=message):
        grade_many([item])


def test_a_batch_keeps_its_order_and_equal_items_get_equal_grades() -> None:
    items = [Item(r"\boxed{1/2}", gold) for gold in ("0.5", "0.6", "1/2", "0.5")] * 50
    assert [result.score for result in grade_many(items)] == [1.0, 0.0, 1.0, 1.0] * 50
    assert grade_many([]) == []


def test_a_forked_child_grades_with_processes_of_its_own() -> None:
    assert grade("0.5", "1/2", kind="answer").score == 1.0
    child = os.fork()
    if child == 0:
        is_right = grade("0.25", "1/4", kind="answer").score == 1.0
        atexit._run_exitfuncs()  # as at a normal exit: the parent's processes must live on
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert grade("0.75", "3/4", kind="answer").score == 1.0


def test_a_set_of_reasoning_gym_is_graded_by_its_own_scorer() -> None:
    gym = pytest.importorskip("reasoning_gym")
    entry = gym.create_dataset("chain_sum", size=1, seed=1)[0]
    fields = {"dataset": "chain_sum", "entry": entry}
    right, wrong = (f"<answer>{text}</answer>" for text in (entry["answer"], "abc"))
    grades = grade_many(Item(text, entry["answer"], "reasoning_gym", "response", fields) for text in (right, wrong))
    assert [result.verdict for result in grades] == ["correct", "wrong"]


def test_the_embedded_worlds_answer_stands_after_its_mark() -> None:
    assert grade("=abcd.abcd#dcba", "dcba", "cipher").score == 1.0
    assert grade("=abcd.abcd#abcd", "dcba", "cipher").score == 0.0
    assert grade("=abcd.abcd", "dcba", "cipher").verdict == "unparsable"
