"""Recorded pools: for each problem, the scores and verdicts of samples that were drawn once and can be searched again.

    pool = read_pool("pool.npz")            # ids [P], rewards [P, n] with NaN for a missing score, labels [P, n]
    pool = read_pool("pool.jsonl")          # {"id": ..., "rewards": [0.3, null, ...], "labels": [0, 1, ...]} a line

JSON lines may be ragged; so may an .npz whose rows end in -1 labels. `solvable` keeps the problems that replay can
use: those with a correct sample.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import read_json_lines, strict_json, write_atomically

NO_SAMPLE = -1  # a label of an .npz beyond the end of a shorter row


@dataclass(frozen=True)
class Recorded:
    """One problem's samples in the order in which they were drawn."""

    id: str
    rewards: npt.NDArray[np.float64]
    labels: npt.NDArray[np.bool_]

    @property
    def pass_rate(self) -> float:
        return float(self.labels.mean())


def read_pool(source: str | Path) -> list[Recorded]:
    """Read a pool by its ending: .npz, else JSON lines (also .gz, or - for standard input).

    Raises:
        UserError: no such file, a missing or misshapen part, an empty pool, a repeated id, infinite scores, or labels
            other than 0 and 1, each with its place.
    """
    pool = _read_arrays(Path(source)) if str(source).endswith(".npz") else _read_lines(source)
    if not pool:
        raise UserError(f"{source}: the pool is empty; it needs at least one problem with samples")
    seen: set[str] = set()
    for problem in pool:
        if problem.id in seen:
            raise UserError(f"{source}: the id {problem.id} stands there twice; ids must differ")
        seen.add(problem.id)
    return pool


def solvable(pool: Sequence[Recorded]) -> list[Recorded]:
    """Return the problems with a correct sample, by id: what replay uses.

    Raises:
        UserError: no problem has one.
    """
    kept = sorted((problem for problem in pool if problem.labels.any()), key=lambda problem: problem.id)
    if not kept:
        num_samples = sum(len(problem.labels) for problem in pool)
        raise UserError(
            f"none of the pool's {num_samples} samples of {len(pool)} problem(s) is correct, so that no search in it "
            "can succeed; draw more samples, or record easier problems"
        )
    return kept


def content(pool: Sequence[Recorded]) -> bytes:
    """Return all that a pool holds, from whatever kind of file, as a run folder knows it by (`runs.inputs`)."""
    return b"".join(problem.id.encode() + problem.rewards.tobytes() + problem.labels.tobytes() for problem in pool)


def write_pool(pool: Sequence[Recorded], path: Path) -> None:
    """Write a pool, .npz or JSON lines by the path's ending."""
    if path.suffix != ".npz":
        rows = (
            {"id": problem.id, "rewards": problem.rewards.tolist(), "labels": problem.labels.astype(int).tolist()}
            for problem in pool
        )
        write_atomically(path, "".join(f"{strict_json(row)}\n" for row in rows))
        return
    width = max(len(problem.labels) for problem in pool)
    rewards = np.full((len(pool), width), np.nan)
    labels = np.full((len(pool), width), NO_SAMPLE, dtype=np.int8)
    for row, problem in enumerate(pool):
        rewards[row, : len(problem.rewards)] = problem.rewards
        labels[row, : len(problem.labels)] = problem.labels
    np.savez_compressed(path, ids=np.array([problem.id for problem in pool]), rewards=rewards, labels=labels)


def _read_arrays(path: Path) -> list[Recorded]:
    try:
        with np.load(path) as arrays:
            missing = [name for name in ("ids", "rewards", "labels") if name not in arrays]
            if missing:
                raise UserError(f"{path}: no array {', '.join(missing)}; it has {', '.join(arrays) or 'none'}")
            ids, rewards, labels = (arrays[name] for name in ("ids", "rewards", "labels"))
    except FileNotFoundError as error:
        raise UserError(f"no such file: {path}") from error
    except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:  # TypeError: a single array
        raise UserError(f"{path}: cannot be read as an .npz file of plain arrays: {error}") from error
    if rewards.ndim != 2 or rewards.shape != labels.shape or ids.shape != rewards.shape[:1]:
        raise UserError(
            f"{path}: ids {ids.shape}, rewards {rewards.shape} and labels {labels.shape} do not fit together; "
            "they must be [P], [P, n] and [P, n]"
        )
    pool = []
    for name, row, marks in zip(map(str, ids), rewards, labels, strict=True):
        length = int((marks != NO_SAMPLE).sum())
        pool.append(_recorded(name, row[:length], marks[:length], f"{path}, problem {name}"))
    return pool


def _read_lines(source: str | Path) -> list[Recorded]:
    pool = []
    for number, row in read_json_lines(source):
        where = f"{source}, line {number}"
        missing = [name for name in ("id", "rewards", "labels") if name not in row]
        if missing:
            raise UserError(f"{where}: no {', '.join(missing)}; a line needs id, rewards and labels")
        if not isinstance(row["rewards"], list) or not isinstance(row["labels"], list):
            raise UserError(f"{where}: rewards must be numbers or null, and labels 0 or 1, both in lists")
        pool.append(_recorded(str(row["id"]), row["rewards"], row["labels"], where))
    return pool


def _recorded(name: str, rewards: Any, labels: Any, where: str) -> Recorded:
    try:
        scores = np.asarray([np.nan if score is None else score for score in rewards], dtype=np.float64)
        marks = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: rewards must be numbers or null, and labels 0 or 1: {error}") from error
    if scores.ndim != 1 or scores.shape != marks.shape:
        raise UserError(f"{where}: {scores.size} rewards but {marks.size} labels; each sample needs both")
    if not scores.size:
        raise UserError(f"{where}: no samples; leave the problem out, or draw some")
    if not np.isin(marks, (0, 1)).all():
        raise UserError(f"{where}: a label is neither 0 nor 1")
    if np.isinf(scores).any():
        raise UserError(f"{where}: a reward is infinite; a missing one is null, or NaN in an .npz file")
    return Recorded(name, scores, marks.astype(bool))
