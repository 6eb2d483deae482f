"""Append-only JSON lines: one flushed line per finished unit of work, readable while the run goes on.

    records = Records(path)
    records.append({"step": 1, "loss": 0.25})
    done = {record["step"] for record in records}

A killed process can leave half a line at the end; it is dropped when the file is opened again. The lines are strict
JSON, which knows no NaN and no infinity: both are written as null.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError

_REMEDY = "free some space or make the folder writable, or choose another folder with --run; then call again to go on"

_BYTE_ORDER_MARK = "\ufeff"  # some editors put one before a text; utf-8-sig drops it where we open the file

_ESCAPE = "backslashreplace"  # half a surrogate pair, which UTF-8 cannot hold, becomes the JSON escape that means it


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a disk that is full, read-only or closed to us into a `UserError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; {_REMEDY}") from error


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's content in one step: a reader, or a kill, sees the old text or the new, never half of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        temporary.write_text(text, encoding="utf-8", errors=_ESCAPE)
        os.replace(temporary, path)


def strict_json(value: Any, **options: Any) -> str:
    """Return `value` as strict JSON, NaN and infinities as null."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, **options)
    except ValueError:
        return json.dumps(_without_non_finite(value), allow_nan=False, ensure_ascii=False, **options)


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_finite(item) for item in value]
    return value


def read_json_lines(source: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON-lines file, a gzipped one (`.gz`), or standard input (`-`).

    Empty lines are skipped.

    Raises:
        UserError: no such file, not readable, or a line that is not a JSON object, with its number.
    """
    name = "standard input" if str(source) == "-" else str(source)
    try:
        with _open(source) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, _parse(line, f"{name}, line {number}")
    except FileNotFoundError as error:
        raise UserError(f"no such file: {name}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{name}: cannot be read: {error}") from error


def _open(source: str | Path) -> Any:
    if str(source) == "-":
        return nullcontext(line.removeprefix(_BYTE_ORDER_MARK) for line in sys.stdin)
    return (gzip.open if str(source).endswith(".gz") else open)(source, "rt", encoding="utf-8-sig")


def _parse(line: str | bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON: {error}") from error
    if not isinstance(record, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(record).__name__}")
    return record


class Records:
    """One JSON-lines file of a run: `append`, iterate, `keep`.

    Args:
        path: the file; made at the first record.
        writer: False in the processes of a distributed run that only look on: they read, and append nothing.
    """

    def __init__(self, path: Path, writer: bool = True) -> None:
        self.path = path
        self._writer = writer
        if writer and path.exists():
            self._drop_torn_line()

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one line and hand it to the operating system, so that a kill cannot lose it.

        Raises:
            UserError: when the disk is full or read-only.
            TypeError: for a value that is not plain (numbers, texts, booleans, None, lists, mappings).
        """
        if not self._writer:
            return
        line = strict_json(record) + "\n"
        with writing(self.path), self.path.open("a", encoding="utf-8", errors=_ESCAPE) as file:
            file.write(line)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the complete records, oldest first."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):  # else another process is still writing it
                    yield _parse(line, f"{self.path}, line {number}")

    def keep(self, wanted: Callable[[dict[str, Any]], bool]) -> int:
        """Drop the records that are not wanted, such as those after the checkpoint to resume from; return how many."""
        records = list(self)
        kept = [record for record in records if wanted(record)]
        if self._writer and len(kept) < len(records):
            write_atomically(self.path, "".join(f"{strict_json(record)}\n" for record in kept))
        return len(records) - len(kept)

    def _drop_torn_line(self) -> None:
        with writing(self.path), self.path.open("rb+") as file:
            complete = sum(len(line) for line in file if line.endswith(b"\n"))
            file.truncate(complete)
