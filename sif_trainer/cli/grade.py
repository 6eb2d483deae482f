"""`sif grade FILE`: grade answers that were made elsewhere.

    sif grade answers.jsonl > grades.jsonl

Each line in holds `pred` and `gold`; optionally `rule` (default math), `kind` ("answer": content of the final box;
"response": a whole reply; by default a reply where an answer can be found in it), and what the rule needs: `unit`,
`type`, `tolerance`, `options`, `rtol`. Each line out, in the same order, holds `score` (0 to 1), `verdict` (correct,
wrong, unparsable), `extracted` (the answer that was compared, or null) and `why`. All lines are checked before the
first is graded.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.progress import Progress
from sif_trainer.runs.records import read_json_lines, strict_json
from sif_trainer.tasks.extract import final_answer
from sif_trainer.tasks.grade import check, grade_many
from sif_trainer.tasks.rules import FIELDS, RULES
from sif_trainer.tasks.verdict import Item

_CHUNK = 256  # lines graded between two writes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif grade` takes."""
    parser.add_argument("file", metavar="FILE", help="JSON lines with pred and gold; .gz too, - for standard input")
    parser.add_argument(
        "--rule", default="math", help=f"rule of lines that name none (default: math; {', '.join(RULES)})"
    )


def run(args: argparse.Namespace) -> int:
    """Read and check, grade, print."""
    items = [_item(record, f"{args.file}, line {number}", args.rule) for number, record in read_json_lines(args.file)]
    if not items:
        raise UserError(f"{args.file}: no answers in it; expected JSON lines with 'pred' and 'gold'")
    with Progress("grade", len(items), "answer") as progress:
        for start in range(0, len(items), _CHUNK):
            grades = grade_many(items[start : start + _CHUNK])
            for grade in grades:
                print(strict_json(asdict(grade)))
            progress.update(len(grades))
    return 0


def _item(record: dict[str, Any], where: str, rule: str) -> Item:
    """A line as an item, checked."""
    for key in ("pred", "gold"):
        if key not in record:
            raise UserError(f"{where}: no '{key}' in it; each line needs 'pred' and 'gold'")
        if type(record[key]) in (int, float):
            record[key] = str(record[key])
        if not isinstance(record[key], str):
            raise UserError(f"{where}: '{key}' must be a text or a number, not {record[key]!r:.60}")
    kind: Any = record.get("kind") or ("answer" if final_answer(record["pred"]) is None else "response")
    fields = {key: record[key] for key in FIELDS if record.get(key) is not None}
    item = Item(record["pred"], record["gold"], record.get("rule", rule), kind, fields)
    try:
        check(item)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return item
