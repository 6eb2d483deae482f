"""Rows of a benchmark from the Hugging Face hub, renamed to our fields. Needs network and the `datasets` package.

Columns differ between data sets and may change with their owners; what is known of them stands in `benchmarks.py`. A
column that is not there is an error that lists those that are. The reference runs of this project read files
(`data_dir`), not the hub.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.benchmarks import Benchmark
from sif_trainer.tasks.extract import last_box

_FIELDS = ("id", "problem", "answer", "unit", "type", "tolerance", "options")


def hub_rows(entry: Benchmark) -> Iterator[dict[str, Any]]:
    """Rows with our field names, those with a picture left out. `UserError` when the hub cannot be read."""
    if entry.hub is None:
        raise UserError(f"benchmark '{entry.name}' is not on the hub; set data_dir (its file: {entry.origin})")
    from datasets import load_dataset

    hub = entry.hub
    try:
        rows: Any = load_dataset(hub.path, hub.config, split=hub.split, revision=hub.revision)
    except Exception as error:  # the library raises many kinds: no network, no such revision, gated
        raise UserError(
            f"could not read {hub.path} from the hub ({type(error).__name__}: {error}); or set data_dir"
        ) from error
    columns = {"problem": "problem", "answer": "answer"} | dict(hub.columns)
    missing = sorted(set(columns.values()) - set(rows.column_names))
    if missing:
        raise UserError(f"{hub.path} has no column {', '.join(missing)}; its columns: {', '.join(rows.column_names)}")
    adapt = _ADAPTERS.get(hub.path)
    for number, raw in enumerate(rows):
        row = raw | {ours: raw[theirs] for ours, theirs in columns.items()}
        if row.get("image") is None:
            name = str(row.get("id", number))  # a bare number repeats in other benchmarks
            row |= {"id": name if "/" in name else f"{entry.name}/{name}"}
            yield {field: value for field, value in (adapt(row) if adapt else row).items() if field in _FIELDS}


def _math(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"answer": last_box(row["answer"])}


def _gsm8k(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"answer": re.sub(r".*####\s*", "", row["answer"], flags=re.DOTALL).replace(",", "")}


def _olympiadbench(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"answer": row["answer"][0] if row["answer"] else None}


def _scienceqa(row: dict[str, Any]) -> dict[str, Any]:
    hint = f"{row['hint']}\n\n" if row["hint"] else ""
    return row | {"problem": hint + row["question"], "options": row["choices"], "answer": chr(65 + int(row["answer"]))}


_ADAPTERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "DigitalLearningGmbH/MATH-lighteval": _math,
    "openai/gsm8k": _gsm8k,
    "Hothan/OlympiadBench": _olympiadbench,
    "derek-thomas/ScienceQA": _scienceqa,
}
