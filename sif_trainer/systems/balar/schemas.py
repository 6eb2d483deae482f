"""What a structured reply looks like at each stage: JSON schemas for `policy.reply`, every array bounded.

    policy.reply(prompts, dimensions(num=5, max_values=4))

The reason stands before what it is to justify. Values and choices are named by number, counted from 1, so that equal
texts cannot be confused. What a schema cannot say (each cell once, no duplicates) `elicitation.py` checks.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sif_trainer.systems.balar.belief import LABELS

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
LABEL: Schema = {"enum": list(LABELS)}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: Schema, at_least: int, at_most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": at_least, "maxItems": at_most}


def _number(highest: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": highest}


def _dimension(max_values: int) -> Schema:
    return _object(reason=TEXT, name=TEXT, values=_array(TEXT, 2, max_values))


def dimensions(num: int, max_values: int) -> Schema:
    """From one to `num` dimensions."""
    return _object(dimensions=_array(_dimension(max_values), 1, num))


def new_dimension(max_values: int) -> Schema:
    return _dimension(max_values)


def judgement() -> Schema:
    """One label with its reason."""
    return _object(reason=TEXT, label=LABEL)


def questions(at_least: int, at_most: int, max_choices: int) -> Schema:
    return _object(
        questions=_array(_object(reason=TEXT, text=TEXT, choices=_array(TEXT, 2, max_choices)), at_least, at_most)
    )


def grid(sizes: list[tuple[int, int]]) -> Schema:
    """Labels for each value and choice; one schema for tables of several sizes (values, choices)."""
    num_cells = [rows * columns for rows, columns in sizes]
    rows, columns = (max(size) for size in zip(*sizes, strict=True))
    cell = _object(value=_number(rows), choice=_number(columns), reason=TEXT, label=LABEL)
    return _object(cells=_array(cell, min(num_cells), max(num_cells)))


def soft_map(num_choices: int) -> Schema:
    cell = _object(choice=_number(num_choices), reason=TEXT, label=LABEL)
    return _object(choices=_array(cell, num_choices, num_choices))


def final_option(num_options: int) -> Schema:
    return _object(reason=TEXT, option=_number(num_options))


def final_text() -> Schema:
    return _object(reason=TEXT, answer=TEXT)


def verdict() -> Schema:
    """The verifier's."""
    return _object(feedback=TEXT, is_valid={"type": "boolean"})
