"""A user's own records: JSON lines with `id`, `text`, `cost` and `relevance`, read once and never altered.

    {"id": "m7", "text": "Ana's badge was renewed on 3 May.", "cost": 11, "relevance": 0.8}

`cost` is what keeping the record costs (tokens, seconds, money: any unit, not negative), `relevance` any score that is
higher for what looks more useful. Other keys are passed on to the judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import read_json_lines
from sif_trainer.systems.jointcore.memory import Memory

Record: TypeAlias = Mapping[str, Any]


def read_archive(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a JSON-lines file. UserError names the line of the first that is not as it must be."""
    records: list[dict[str, Any]] = []
    lines: dict[str | int, int] = {}
    for number, record in read_json_lines(path):
        where = f"{path}, line {number}"
        check_record(record, where)
        if record["id"] in lines:
            raise UserError(f"{where}: id {record['id']!r} was given in line {lines[record['id']]}; ids must differ")
        lines[record["id"]] = number
        records.append(record)
    if not records:
        raise UserError(f"{path}: no records in it; write JSON lines with id, text, cost and relevance")
    return records


def check_record(record: Record, where: str) -> None:
    """Raise a UserError that says what a record lacks."""
    if type(record.get("id")) not in (str, int):
        raise UserError(f"{where}: 'id' must be a text or a whole number, not {record.get('id')!r:.60}")
    if not isinstance(record.get("text"), str) or not record["text"].strip():
        raise UserError(f"{where} (id {record['id']!r}): 'text' must be a text that is not empty")
    for key in ("cost", "relevance"):
        value = record.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UserError(f"{where} (id {record['id']!r}): '{key}' must be a number, not {value!r:.60}")
    if record["cost"] < 0:
        raise UserError(f"{where} (id {record['id']!r}): 'cost' is {record['cost']}; it must not be negative")


def memory_of(records: Iterable[Record]) -> Memory:
    """Return what a search sees of the records: their places, costs and relevances."""
    records = list(records)
    return Memory(
        "archive",
        costs=tuple(record["cost"] for record in records),
        scores=tuple(record["relevance"] for record in records),
    )
