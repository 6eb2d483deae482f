"""Where rows come from: one text names a source, for prompts and for reference answers alike.

    data/train.jsonl.gz                      JSON lines, gzipped or not
    hub:DigitalLearningGmbH/MATH-lighteval   a data set of the hub; add @REVISION to pin it
    reasoning_gym:chain_sum                  a procedural set of the package reasoning-gym
    benchmark:aime2025                       a benchmark's problems, as its evaluation puts them
    cipher                                   the embedded world

Every row gets a text `id`: its own, or its number in the source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from sif_trainer.runs.errors import UserError, nearest, require
from sif_trainer.runs.records import read_json_lines

PROCEDURAL_SIZE = 1000


def read_rows(
    source: str, split: str = "train", limit: int | None = None, seed: int = 0, data_dir: str | None = None
) -> list[dict[str, Any]]:
    """Read up to `limit` rows of a source, each with an `id`.

    Args:
        source: see the module's text.
        split: of a hub data set; of the embedded world 'train' or 'test', which share no problem.
        limit: rows to read; procedural sources make 1,000 when it is None.
        seed: of procedural sources.
        data_dir: folder of benchmark files.

    Raises:
        UserError: no such source, no rows, two rows of one id.
    """
    if limit is not None and limit < 1:
        raise UserError(f"{source}: {limit} rows were asked for; ask for at least 1, or leave the number out for all")
    kind, _, name = source.partition(":")
    if kind == "hub" and name:
        rows = _hub(name, split, limit)
    elif kind == "reasoning_gym" and name:
        rows = _reasoning_gym(name, limit or PROCEDURAL_SIZE, seed)
    elif kind == "benchmark" and name:
        from sif_trainer.tasks.load import load_benchmark

        problems = load_benchmark(name, data_dir, limit)
        rows = ({"id": p.id, "prompt": p.prompt, "answer": p.gold, **p.fields} for p in problems)
    elif source == "cipher":
        from sif_trainer.tasks.cipher import world

        rows = iter(world.rows(split, limit or PROCEDURAL_SIZE, seed))
    else:
        rows = (row for _, row in itertools.islice(read_json_lines(source), limit))
    numbered = [{**row, "id": str(row.get("id", number))} for number, row in enumerate(rows)]
    if not numbered:
        raise UserError(f"{source}: no rows")
    seen: set[str] = set()
    for row in numbered:
        if row["id"] in seen:
            raise UserError(f"{source}: two rows have the id '{row['id']}'; make ids unique or leave them out")
        seen.add(row["id"])
    return numbered


def _hub(name: str, split: str, limit: int | None) -> Iterator[dict[str, Any]]:
    from datasets import load_dataset

    path, _, revision = name.partition("@")
    try:
        dataset = load_dataset(path, split=split, revision=revision or None)
    except (OSError, ValueError, ConnectionError) as error:
        raise UserError(
            f"the hub data set '{path}' (split '{split}') could not be loaded: {error}; without a connection, save "
            "it as JSON lines and name the file instead"
        ) from error
    return iter(dataset.select(range(min(limit or len(dataset), len(dataset)))))


def _reasoning_gym(name: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    return (
        {"problem": entry["question"], "answer": entry["answer"]} for entry in procedural_entries(name, size, seed)
    )


def procedural_entries(name: str, size: int, seed: int) -> Any:
    """Return a reasoning-gym data set of `size` entries; refuses a name that it does not have."""
    gym = require("reasoning_gym", extra="smollm2")
    known = sorted(gym.factory.DATASETS)
    if name not in known:
        raise UserError(f"reasoning_gym has no data set '{name}'{nearest(name, known)}")
    return gym.create_dataset(name, size=size, seed=seed)
