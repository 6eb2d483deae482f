"""What of a data set may enter the trainer: `prompt`, `id`, and the columns that a monitor names.

TRL hands every column to every reward function, reference answers included. Here a column that nobody asked for by
name is dropped before the trainer sees it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset

from sif_trainer.data.prompts import REPHRASED


def prompts_only(dataset: Dataset, monitors: Sequence[Callable[..., Any]]) -> Dataset:
    """Return the data set without the columns that no monitor names; an `id` is added where there is none.

    Raises:
        ValueError: without a `prompt` column, without rows, or with images.
    """
    if "prompt" not in dataset.column_names:
        raise ValueError(f"the data set has no column 'prompt'; its columns are: {', '.join(dataset.column_names)}")
    if len(dataset) == 0:
        raise ValueError("the data set has no rows")
    images = {"image", "images"} & set(dataset.column_names)
    if images:
        raise ValueError(f"the data set has a column '{images.pop()}': certainty is scored on text only; remove it")
    asked_for = {"prompt", "id"}.union(*(_parameters(monitor) for monitor in monitors))
    dataset = dataset.select_columns([name for name in dataset.column_names if name in asked_for])
    return dataset if "id" in dataset.column_names else dataset.add_column("id", [str(i) for i in range(len(dataset))])


def check_pairs(dataset: Dataset) -> None:
    """Refuse a data set whose rows are not questions, each followed by its rephrasing (id `x`, then `x#rephrased`).

    Raises:
        ValueError: naming the first row that is not in its place.
    """
    ids = [str(i) for i in dataset["id"]] if "id" in dataset.column_names else []
    wrong = [i for i, (own, other) in enumerate(zip(ids[::2], ids[1::2], strict=False)) if other != own + REPHRASED]
    if not ids or len(ids) % 2 or wrong:
        row = f"row {2 * wrong[0] + 2} is '{ids[2 * wrong[0] + 1]}'" if wrong else f"it has {len(ids)} ids"
        raise ValueError(
            "co_rewarding needs each question followed by its rephrasing, with ids 'x' and 'x#rephrased', but "
            f"{row}; in a recipe, name the column of the rephrasing with rephrased_column=NAME"
        )


def named_columns_only(monitor: Callable[..., Any], columns: Sequence[str]) -> Callable[..., Any]:
    """Return the monitor so that of these columns it gets those that it names, even if another names more."""
    unasked = set(columns) - _parameters(monitor) - {"prompt", "id"}
    if not unasked or not inspect.isfunction(monitor) or inspect.iscoroutinefunction(monitor):
        return monitor

    @functools.wraps(monitor)
    def with_fewer(*args: Any, **kwargs: Any) -> Any:
        return monitor(*args, **{name: value for name, value in kwargs.items() if name not in unasked})

    return with_fewer


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a reward model, or a builtin: it takes texts only
        return set()
