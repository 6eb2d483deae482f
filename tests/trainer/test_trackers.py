"""Trackers through `report_to`, offline: their files hold our metrics; wandb's a table of completions as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.factory import build_config


def train(folder: Path, tracker: str) -> None:
    tiny.trainer(
        folder, max_steps=2, report_to=[tracker], run_name="seed7", log_completions=True, num_completions_to_print=1
    ).train()


def in_a_process(call: str, **environment: str) -> None:
    """Call a function of this file in a process of its own: trackers remember where their files are from their import
    on, and wandb's are gone when a process that was forked from this one ends."""
    here = Path(__file__).parent
    found = {"PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])]), "OMP_NUM_THREADS": "1"}
    code = f"import test_trackers; from pathlib import Path; test_trackers.{call}"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **found, **environment}, check=True)


def train_with_wandb(folder: Path) -> None:
    import wandb

    train(folder, "wandb")
    assert wandb.run.group == "tiny" and wandb.run.name == "seed7"
    wandb.finish()


def test_wandb_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    names = {"WANDB_PROJECT": "sif", "WANDB_RUN_GROUP": "tiny"}
    offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    in_a_process(f"train_with_wandb(Path({str(tmp_path / 'run')!r}))", **names, **offline)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    stored = file.read_bytes()
    for key in (b"sif/keep_rate", b"sif/certainty_mean", b"sif/window_margin", b"completions", b"num_windows"):
        assert key in stored, key
    tables = list(tmp_path.glob("wandb/offline-run-*/files/media/table/completions*.json"))
    assert tables and '"sif"' in tables[0].read_text() and '"advantage"' in tables[0].read_text()


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    train(tmp_path / "run", "tensorboard")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "logs").rglob("events*"))
    assert b"train/sif/keep_rate" in stored and b"train/sif/certainty_mean" in stored


def test_trackio(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    in_a_process(f"train(Path({str(tmp_path / 'run')!r}), 'trackio')", TRACKIO_DIR=str(tmp_path / "trackio"))
    stored = b"".join(path.read_bytes() for path in (tmp_path / "trackio").rglob("*") if path.is_file())
    assert b"sif/keep_rate" in stored and b"sif/certainty_mean" in stored


@pytest.mark.parametrize("tracker", ["tensorboard", "trackio", "wandb"])
def test_a_tracker_that_is_not_installed_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(UserError, match=rf"install it with: pip install 'sif-trainer\[{tracker}\]'"):
        build_config({"report_to": [tracker]}, tmp_path)
