"""Reference answers by prompt id, from the same sources as the prompts. Monitors, evaluation and the studies read
them; training never does: `trainer` may not import this module, and a test keeps it so.

    answers = load_answers("data/train.jsonl.gz")          # {"train/algebra/0.json": Answer("0"), ...}
    accuracy_monitor(answers, rule="math")                 # tasks/monitor.py

A row gives its answer in the column `answer`, `gold`, `ground_truth` or `solution`; of a written-out solution the last
box, or what follows `####`, is taken. The grader's own fields (`unit`, `type`, `tolerance`, `options`) are kept where
a row has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sif_trainer.data.sources import PROCEDURAL_SIZE, procedural_entries, read_rows
from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.extract import last_box
from sif_trainer.tasks.rules import FIELDS

ANSWER_COLUMNS = ("answer", "gold", "ground_truth", "solution")
_HASHES = re.compile(r"####\s*(.+?)\s*$")


@dataclass(frozen=True)
class Answer:
    """A reference answer and the fields that its grader needs besides."""

    gold: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def load_answers(
    source: str,
    answer_column: str | None = None,
    split: str = "train",
    limit: int | None = None,
    seed: int = 0,
    data_dir: str | None = None,
) -> dict[str, Answer]:
    """Answers by id of a prompts source (see `sources.read_rows`); arguments as for the prompts, so that ids agree.

    Rows without an answer are left out: a monitor shows nothing for them. Raises `UserError` when no row has one, or
    when one is neither a text nor a number.
    """
    kind, _, name = source.partition(":")
    if kind == "reasoning_gym":
        return _procedural(name, limit or PROCEDURAL_SIZE, seed)
    rows = read_rows(source, split, limit, seed, data_dir)
    columns = (answer_column,) if answer_column else ANSWER_COLUMNS
    answers = {}
    for row in rows:
        text = next((_text(row, column, source) for column in columns if row.get(column) is not None), "")
        if text:
            fields = {key: row[key] for key in FIELDS if row.get(key) is not None}
            answers[row["id"]] = Answer(_final(text), fields)
    if not answers:
        raise UserError(
            f"{source}: no row has an answer in column {' or '.join(columns)}; its columns: {', '.join(rows[0])}; "
            "name the right one with answer_column=NAME"
        )
    return answers


def _text(row: Mapping[str, Any], column: str, source: str) -> str:
    """The row's answer as text; a number is as good as its text."""
    value = row[column]
    if type(value) not in (str, int, float):
        raise UserError(
            f"{source}, row '{row['id']}': {column} is {value!r:.60}, and an answer is a text or a number; write it "
            "as one, or name another column with answer_column=NAME"
        )
    return str(value).strip()


def _final(text: str) -> str:
    """The final answer of a written-out solution, or the text itself."""
    hashes = _HASHES.search(text)
    return hashes.group(1).replace(",", "") if hashes else last_box(text) or text


def _procedural(name: str, size: int, seed: int) -> dict[str, Answer]:
    """Answers of a reasoning-gym set; its scorer needs the whole entry."""
    entries = procedural_entries(name, size, seed)
    return {
        str(number): Answer(str(entry["answer"]), {"dataset": name, "entry": entry})
        for number, entry in enumerate(entries)
    }
