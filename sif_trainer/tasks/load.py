"""Read a benchmark's problems: from JSON lines in `data_dir`, or from the hub when no folder is given.

    problems = load_benchmark("math500", data_dir="data/benchmarks", limit=50)

A row needs `id`, `problem` and `answer`; `options`, `unit`, `type` and `tolerance` are used where present. A missing
file, a row that lacks a field and an id that repeats are errors that name the place. References that no grader can
read are counted and named in a warning; such a problem stays in the set, so that scores stay comparable, and only a
word-for-word copy answers it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import read_json_lines
from sif_trainer.tasks.benchmarks import EXAM_INSTRUCTIONS, Benchmark, benchmark
from sif_trainer.tasks.rules import reads

Row = Mapping[str, Any]
_NEEDED = ("id", "problem", "answer")


@dataclass(frozen=True)
class Problem:
    """One problem: what the model reads (`prompt`, the user's turn) and what the grader needs (`gold`, `rule`,
    `fields`).
    """

    id: str
    benchmark: str
    prompt: str
    gold: str
    rule: str = "math"
    fields: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""  # the bare problem, for comparison with other texts

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as a chat of one user turn."""
        return [{"role": "user", "content": self.prompt}]


def load_benchmark(name: str, data_dir: str | Path | None = None, limit: int | None = None) -> list[Problem]:
    """Problems of benchmark `name` in their file's order, the first `limit` of them.

    Raises `UserError` for an unknown benchmark, a missing file (it says where to get one) or faulty rows (with line
    numbers).
    """
    entry = benchmark(name)
    problems = [problem for part in entry.parts or (name,) for problem in _load(benchmark(part), entry.name, data_dir)]
    unreadable = [problem.id for problem in problems if not reads(problem.rule, problem.gold)]
    if unreadable:
        warnings.warn(
            f"{name}: {len(unreadable)} of {len(problems)} references cannot be read by rule '{entry.rule}', only a "
            f"copy of their text counts: {', '.join(unreadable[:5])}{', ...' if len(unreadable) > 5 else ''}",
            stacklevel=2,
        )
    return problems[:limit]


def benchmark_files(name: str, data_dir: str | Path | None) -> dict[str, Path]:
    """Return the files that `load_benchmark` reads, by the name of the benchmark or of its part; none of a hub's."""
    parts = [benchmark(part) for part in benchmark(name).parts or (name,)]
    if data_dir is None:
        return {}
    return {entry.name: _find(entry, Path(data_dir)) for entry in parts if entry.name != "cipher"}


def _load(entry: Benchmark, shown_as: str, data_dir: str | Path | None) -> list[Problem]:
    if entry.name == "cipher":
        from sif_trainer.tasks.cipher.world import rows

        return [
            Problem(
                str(row["id"]), shown_as, str(row["prompt"]), str(row["answer"]), entry.rule, text=str(row["prompt"])
            )
            for row in islice(rows("test", entry.num_problems, seed=0), entry.num_problems)
        ]
    if data_dir is not None:
        path = _find(entry, Path(data_dir))
        return _problems(entry, shown_as, read_json_lines(path), str(path))
    from sif_trainer.tasks.hub import hub_rows

    return _problems(entry, shown_as, enumerate(hub_rows(entry)), f"hub data set of {entry.name}")


def _find(entry: Benchmark, folder: Path) -> Path:
    """The benchmark's file, plain or gzipped."""
    for path in (folder / str(entry.file), folder / f"{entry.file}.gz"):
        if path.is_file():
            return path
    hub = f", or leave data_dir out to read {entry.hub.path} from the hub" if entry.hub else ""
    raise UserError(
        f"benchmark '{entry.name}' needs {folder / str(entry.file)} (or .gz), which does not exist; make it from "
        f"{entry.origin}, one JSON object a line with id, problem and answer (see docs/benchmarks.md){hub}"
    )


def _problems(entry: Benchmark, shown_as: str, numbered: Iterable[tuple[int, Row]], source: str) -> list[Problem]:
    problems: dict[str, Problem] = {}
    faults: list[str] = []
    for number, row in numbered:
        missing = [key for key in _NEEDED if row.get(key) is None or not str(row[key]).strip()]
        if entry.rule == "jeebench" and row.get("type") not in EXAM_INSTRUCTIONS:
            missing.append(f"type (one of {', '.join(EXAM_INSTRUCTIONS)})")
        if missing:
            faults.append(f"line {number} lacks {', '.join(missing)}")
        elif str(row["id"]) in problems:
            faults.append(f"line {number} repeats id {row['id']}")
        else:
            fields = {**entry.fields, **{key: row[key] for key in entry.row_fields if row.get(key) is not None}}
            text = str(row["problem"]).strip()
            problem = Problem(
                str(row["id"]), shown_as, _prompt(entry, row), str(row["answer"]), entry.rule, fields, text
            )
            problems[problem.id] = problem
    if faults:
        more = f"; and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise UserError(f"{source}: {'; '.join(faults[:10])}{more}; each line needs {', '.join(_NEEDED)}, once per id")
    if not problems:
        raise UserError(f"{source}: no problems in it")
    return list(problems.values())


def _prompt(entry: Benchmark, row: Row) -> str:
    """The user's turn: problem, options as lettered lines, unit, instruction."""
    parts = [str(row["problem"]).strip()]
    if entry.rule == "mcq" and row.get("options"):
        parts.append("\n".join(f"({chr(65 + index)}) {option}" for index, option in enumerate(row["options"])))
    if row.get("unit"):
        parts.append(f"Give the answer in units of {str(row['unit']).strip()}.")
    parts.append(entry.instruction or EXAM_INSTRUCTIONS[row["type"]])
    return "\n\n".join(parts)
