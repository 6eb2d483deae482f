"""The accuracy monitor: TRL's signature, answers by id, none where there is none."""

from __future__ import annotations

import pytest

from sif_trainer.data.answers import Answer
from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.monitor import accuracy_monitor

ANSWERS = {"a": Answer("1/2"), "b": Answer("ABD", {"type": "MCQ(multiple)"}), "7": Answer("3")}


def test_completions_are_graded_by_their_prompts_id() -> None:
    accuracy = accuracy_monitor(ANSWERS, "math")
    scores = accuracy(
        prompts=["?"] * 4,
        completions=[r"so \boxed{0.5}", r"\boxed{2}", "no answer here\nat all", r"\boxed{3}"],
        id=["a", "a", "a", "unknown"],
        completion_ids=[[1]] * 4,
    )
    assert scores == [1.0, 0.0, 0.0, None] and accuracy.__name__ == "accuracy"


def test_completions_may_be_messages_and_ids_numbers() -> None:
    accuracy = accuracy_monitor(ANSWERS, "math")
    messages = [{"role": "assistant", "content": r"\boxed{3}"}]
    assert accuracy(prompts=["?"], completions=[messages], id=[7]) == [1.0]


def test_fields_reach_the_rule_and_partial_credit_is_not_correct() -> None:
    accuracy = accuracy_monitor(ANSWERS, "jeebench")
    assert accuracy(prompts=["?"] * 2, completions=[r"\boxed{ABD}", r"\boxed{AB}"], id=["b", "b"]) == [1.0, 0.0]


def test_no_answer_is_held_outside_the_closure() -> None:
    accuracy = accuracy_monitor(ANSWERS, "math")
    assert vars(accuracy) == {} and accuracy.__defaults__ is None


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'gsm8k'"):
        accuracy_monitor(ANSWERS, "gsm8")
