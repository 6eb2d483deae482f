"""One training run, from its start or its last complete checkpoint to the trained model and a summary."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import Records
from sif_trainer.trainer.checkpoints import copy_model, last_complete_checkpoint
from sif_trainer.trainer.health import Health
from sif_trainer.trainer.trainer import SIFTrainer
from sif_trainer.trainer.validation import Validation


def train(
    trainer: SIFTrainer, folder: RunFolder, measure: Callable[[Any], Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Train to the end and return the summary.

    Args:
        trainer: its `args.output_dir` is the run folder's path.
        folder: the run; going on from its last checkpoint that was written to the end.
        measure: from the live model to held-out numbers, `accuracy` among them; called at the start and at
            checkpoints.
    """
    config = trainer.args
    health = None
    if config.health != "off":
        health = Health(config.health, folder.path, folder.writer, thresholds=config.health_thresholds)
        trainer.add_callback(health)
    if measure is not None:
        trainer.add_callback(Validation(measure, folder.path, folder.writer))
    checkpoint = last_complete_checkpoint(folder.path)
    if checkpoint is not None and folder.writer:
        print(f"going on from {checkpoint}", file=sys.stderr, flush=True)
    with _room_on_disk(folder.path):
        result = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        trainer.save_model(str(folder.path / "last"))
    summary = {"num_steps": trainer.state.global_step, "seconds": result.metrics["train_runtime"]}
    if health is not None and health.collapsed_at is not None:
        summary["collapsed_at"] = health.collapsed_at
        if config.health == "rollback" and folder.writer and (folder.path / "healthy").exists():
            copy_model(folder.path / "healthy", folder.path / "last")
    validation = list(Records(folder.path / "validation.jsonl", writer=False))
    if validation:
        trained = validation[1:] or validation
        summary |= {
            "before": validation[0],
            "after": validation[-1],
            "best": max(trained, key=lambda r: r["accuracy"]),
        }
    return summary


@contextmanager
def _room_on_disk(folder: Path) -> Iterator[None]:
    """Say what to do when a checkpoint does not fit on the disk, which every library reports in its own way."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        full = "space left" in str(error) or "iostream error" in str(error)
        if not full and shutil.disk_usage(folder).free > 1_000_000:
            raise
        raise UserError(
            f"the disk of {folder} is full ({shutil.disk_usage(folder).free:,} bytes are left); free some space, "
            "or keep fewer checkpoints (save_total_limit); then call again to go on from the last complete one"
        ) from error
