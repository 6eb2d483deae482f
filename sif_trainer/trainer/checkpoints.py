"""Checkpoints of a run: which ones are whole, and copies of their models under a name (`best/`, `healthy/`)."""

from __future__ import annotations

import shutil
from pathlib import Path

COMPLETE = "COMPLETE"  # written last: a checkpoint without it was cut off by a kill
# What a run needs to go on, and a model that is used does not.
_RESUME_FILES = (
    "optimizer*",
    "scheduler*",
    "scaler*",
    "rng_state*",
    "trainer_state.json",
    "training_args.bin",
    "teacher.pt",
    COMPLETE,
)


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return where the trainer puts the checkpoint of a step."""
    return folder / f"checkpoint-{step}"


def last_complete_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint that was written to the end, or None."""
    marked = [path.parent for path in folder.glob(f"checkpoint-*/{COMPLETE}")]
    return max(marked, key=lambda path: int(path.name.rsplit("-", 1)[1]), default=None)


def copy_model(source: Path, target: Path) -> None:
    """Replace `target` by the model of a checkpoint; a kill in between leaves the old one or none, never a half."""
    fresh = target.with_name(f".{target.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(source, fresh, ignore=shutil.ignore_patterns(*_RESUME_FILES))
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
