"""The samples of a run on disk: one flushed line each, in one file per process while the run goes on.

    store = SampleStore(folder, rank=0)
    store.add({"benchmark": "math500", "id": "17", "sample": 0, "text": ..., "score": 1.0, ...})
    for record in read_samples(folder): ...

`samples.jsonl` holds a record per sample, `left_out.jsonl` one per problem whose prompt is too long, `prompts.jsonl`
the rendered prompt and the reference of each problem. Other processes write `samples.rank1.jsonl` and so on; `merge`
brings their records over. A sample that is recorded is never drawn again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sif_trainer.runs.records import Records

SAMPLES, LEFT_OUT = "samples", "left_out"


class SampleStore:
    """Reads the records of all processes, writes those of one.

    Attributes:
        done: (benchmark, problem id, sample index) of every recorded sample.
        left_out: (benchmark, problem id) of every problem without an answer for want of room.
    """

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.folder = folder
        self._own = {name: Records(folder / _file(name, rank)) for name in (SAMPLES, LEFT_OUT)}
        self._read()

    def _read(self) -> None:
        self.done = {_key(record) for record in _stored(self.folder, SAMPLES)}
        self.left_out = {(record["benchmark"], record["id"]) for record in _stored(self.folder, LEFT_OUT)}

    def add(self, record: Mapping[str, Any]) -> None:
        """Record a sample."""
        self._own[SAMPLES].append(record)
        self.done.add(_key(record))

    def leave_out(self, benchmark: str, problem_id: str, why: str) -> None:
        """Record that a problem gets no samples."""
        self._own[LEFT_OUT].append({"benchmark": benchmark, "id": problem_id, "why": why})
        self.left_out.add((benchmark, problem_id))

    def merge(self) -> None:
        """Move the other processes' records into this one's files; a kill on the way loses and repeats none."""
        for name, records in self._own.items():
            others = [path for path in _parts(self.folder, name) if path != records.path]
            present = {_key(record) for record in records} if others else set()
            for path in others:
                for record in Records(path, writer=False):
                    if _key(record) not in present:
                        records.append(record)
                path.unlink()
        self._read()


def read_samples(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples of a run, in the order in which they were finished."""
    return _stored(folder, SAMPLES)


def _stored(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    seen = set()
    for path in _parts(folder, name):
        for record in Records(path, writer=False):
            if _key(record) not in seen:
                seen.add(_key(record))
                yield record


def _key(record: Mapping[str, Any]) -> tuple[str, str, int | None]:
    return record["benchmark"], record["id"], record.get("sample")


def _file(name: str, rank: int) -> str:
    return f"{name}.jsonl" if rank == 0 else f"{name}.rank{rank}.jsonl"


def _parts(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}*.jsonl"))
