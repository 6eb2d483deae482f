"""Any summary as tables: single numbers in one, mappings of like things as rows under their names.

    tables_of({"num_tasks": 62, "methods": {"full_memory": {"success_rate": 1.0}, "galloping": {"success_rate": 1.0}}})

Estimates (`value` or `mean`, `low`, `high`) are written with their intervals. Long lists stay in `summary.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sif_trainer.report.blocks import Table, interval, number
from sif_trainer.report.completions import visible

_LONGEST_LIST = 8


def tables_of(summary: Mapping[str, Any], title: str = "In numbers") -> list[Table]:
    """Return the tables of a summary, the one of single numbers first."""
    nested = {name: value for name, value in summary.items() if _is_nested(value)}
    single = {name: value for name, value in summary.items() if name not in nested}
    rows = [list(pair) for pair in _flat(single)]
    tables = [Table(title, ["quantity", "value"], rows)] if rows else []
    for name, value in nested.items():
        # Of mappings within mappings, such as a setting's methods, each is a table of its own.
        if all(_is_nested(item) for item in value.values()):
            tables += [_rows(f"{_words(name)}: {_words(inner)}", item) for inner, item in value.items()]
        else:
            tables.append(_rows(_words(name), value))
    return tables


def _rows(title: str, things: Mapping[str, Any]) -> Table:
    """A row for each thing, a column for each of what is told of them."""
    cells = {name: dict(_flat(thing)) for name, thing in things.items()}
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    rows = [[visible(name), *(row.get(column, "-") for column in columns)] for name, row in cells.items()]
    return Table(title, ["name", *columns], rows)


def _flat(values: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(values, Mapping):
        values = {"": values}
    for name, value in values.items():
        full = " ".join(filter(None, (prefix, _words(str(name)))))
        if _is_estimate(value):
            yield full, interval(value, write=number)
        elif isinstance(value, Mapping):
            yield from _flat(value, full)
        elif not isinstance(value, list):
            yield full, _cell(value)
        elif len(value) <= _LONGEST_LIST and not any(isinstance(item, list | Mapping) for item in value):
            yield full, ", ".join(map(_cell, value)) or "-"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value is None):
        return visible(str(value))
    return number(value)


def _is_nested(value: Any) -> bool:
    """Whether a value is a mapping of mappings, none of which is an estimate."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(item, Mapping) and not _is_estimate(item) for item in value.values())
    )


def _is_estimate(value: Any) -> bool:
    return isinstance(value, Mapping) and {"low", "high"} <= set(value) and bool({"value", "mean"} & set(value))


def _words(name: str) -> str:
    return name.replace("_", " ")
