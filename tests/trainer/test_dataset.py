"""Which columns enter the trainer: the prompt, an id, and what a monitor asks for by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from datasets import Dataset

from sif_trainer.trainer.dataset import named_columns_only, prompts_only

ROWS = Dataset.from_dict({"prompt": ["a", "b"], "answer": ["1", "2"], "level": [3, 4], "solution": ["x", "y"]})


def asks_for_answer(completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    return [0.0] * len(completions)


def asks_for_level(completions: list[str], level: list[int]) -> list[float]:
    return [0.0] * len(completions)


class AsksForSolution:
    def __call__(self, completions: list[str], solution: list[str], **kwargs: Any) -> list[float]:
        return [0.0] * len(completions)


def asks_for_anything(completions: list[str], **kwargs: Any) -> list[float]:
    return [0.0] * len(completions)


@pytest.mark.parametrize(
    ("monitors", "columns"),
    [
        ([], {"prompt", "id"}),
        ([asks_for_anything], {"prompt", "id"}),
        ([asks_for_answer], {"prompt", "id", "answer"}),
        ([asks_for_answer, asks_for_level], {"prompt", "id", "answer", "level"}),
        ([AsksForSolution()], {"prompt", "id", "solution"}),
        ([partial(asks_for_answer, answer=["1"])], {"prompt", "id", "answer"}),
        ([int], {"prompt", "id"}),
    ],
)
def test_columns(monitors: list[Callable[..., Any]], columns: set[str]) -> None:
    assert set(prompts_only(ROWS, monitors).column_names) == columns


def test_rows_are_numbered_unless_they_have_names() -> None:
    assert prompts_only(ROWS, [])["id"][:] == ["0", "1"]
    named = ROWS.add_column("id", ["first", "second"])
    assert prompts_only(named, [])["id"][:] == ["first", "second"]
    assert prompts_only(named, [])["prompt"][:] == ["a", "b"]


def test_the_data_set_itself_is_left_as_it_was() -> None:
    prompts_only(ROWS, [])
    assert set(ROWS.column_names) == {"prompt", "answer", "level", "solution"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.rename_column("prompt", "text"), "no column 'prompt'; its columns are: text, answer, level, solution"),
        (ROWS.select([]), "the data set has no rows"),
        (ROWS.add_column("image", ["i", "j"]), "has a column 'image': certainty is scored on text only"),
    ],
)
def test_refused(rows: Dataset, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prompts_only(rows, [])


def test_a_monitor_gets_the_columns_that_it_names_and_no_other_ones() -> None:
    def names_level(completions: list, level: list, **kwargs: object) -> list:
        return [sorted(kwargs), level]

    def names_none(completions: list, **kwargs: object) -> list:
        return [sorted(kwargs)]

    columns = ["prompt", "id", "level"]
    given = {"completions": [], "id": ["a"], "level": [1], "trainer_state": None}
    assert named_columns_only(names_level, columns)(**given) == [["id", "trainer_state"], [1]]
    assert named_columns_only(names_none, columns)(**given) == [["id", "trainer_state"]]
