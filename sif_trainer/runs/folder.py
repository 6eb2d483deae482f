"""A run folder: what was run, with what, and how far it came. Every long command opens one.

    run = RunFolder.open("runs/quickstart", command="train", config=values, reference=paper, seed=1)
    if not run.finished:
        metrics = run.records("metrics")      # metrics.jsonl, append-only
        ...
        run.finish({"accuracy": 0.5})         # summary.json

`manifest.json` holds command, configuration, seed and, for every start, versions and hardware; `config.yaml` the
resolved configuration, itself a recipe; `paper_diff.yaml` its difference from the reference. Opening the folder again
with the same configuration and the same content of its input files goes on where the run was; with another it is
refused, unless nothing was done there yet.
In a distributed run the process of rank 0 writes and the others share.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.flat_yaml import dump
from sif_trainer.runs.inputs import Source, fingerprints
from sif_trainer.runs.recipe import differences
from sif_trainer.runs.records import Records, strict_json, write_atomically, writing

_PACKAGES = (
    "sif-trainer", "torch", "trl", "transformers", "accelerate", "peft", "datasets", "numpy", "sympy",
    "vllm", "deepspeed",
)  # fmt: skip
_LOCKED: list[TextIO] = []  # open, and so locked, until this process ends
_OPENING = {"manifest.json", "config.yaml", "paper_diff.yaml"}
_ANOTHER_FOLDER = "choose another folder with --run"


class RunFolder:
    """One run's folder; made by `RunFolder.open`.

    Attributes:
        path: the folder.
        writer: whether this process writes (rank 0); the others' writing calls do nothing.
    """

    def __init__(self, path: Path, writer: bool) -> None:
        self.path = path
        self.writer = writer

    @classmethod
    def open(
        cls,
        path: str | Path,
        command: str,
        config: Mapping[str, Any],
        reference: Mapping[str, Any] | None = None,
        seed: int | None = None,
        facts: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Source | None] | None = None,
    ) -> RunFolder:
        """Make the folder, or open it again to go on.

        Args:
            path: the folder; its parents are made too.
            command: the command's name, such as `train`.
            config: the resolved configuration; values that YAML has no form for are written as texts.
            reference: what `paper_diff.yaml` compares with.
            seed: the run's seed.
            facts: what a reader of the manifest must know besides.
            inputs: by name, the files that the run reads; the manifest keeps what their content was.

        Raises:
            UserError: the path is a file, holds other files or a run with another configuration or other inputs, is
                in use by another process, or cannot be written; an input cannot be read.
        """
        run = cls(Path(path), writer=int(os.environ.get("RANK", "0")) == 0)
        if not run.writer:
            return run
        if run.path.exists() and not run.path.is_dir():
            raise UserError(f"run folder {path} is a file; {_ANOTHER_FOLDER}")
        known = fingerprints(inputs or {})
        with writing(run.path):
            run.path.mkdir(parents=True, exist_ok=True)
        run._lock()
        plain = json.loads(json.dumps(config, default=str))
        manifest = run._manifest(command, plain, seed, known)
        manifest |= facts or {}
        manifest["starts"].append(_circumstances())
        run.write_json("manifest", manifest)
        write_atomically(run.path / "config.yaml", dump(plain))
        if reference is not None:
            plain_reference = json.loads(json.dumps(reference, default=str))
            write_atomically(run.path / "paper_diff.yaml", dump(differences(plain, plain_reference)))
        return run

    def _lock(self) -> None:
        with writing(self.path):
            file = (self.path / ".lock").open("w")
        _LOCKED.append(file)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"run folder {self.path} is in use by another process; wait for it, or {_ANOTHER_FOLDER}"
            ) from error
        except OSError:
            pass  # a file system without locks, as on some clusters: only this guard is lost

    def _manifest(
        self, command: str, config: dict[str, Any], seed: int | None, inputs: dict[str, str]
    ) -> dict[str, Any]:
        """Return the folder's manifest, a new one in an empty folder; refuse a folder that is not this run's."""
        canonical = strict_json(config, sort_keys=True)
        new = {
            "command": command,
            "seed": seed,
            "fingerprint": hashlib.sha256(canonical.encode()).hexdigest()[:16],
            "config": json.loads(canonical),
            "inputs": inputs,
            "starts": [],
        }
        if not (self.path / "manifest.json").exists():
            if strangers := sorted(file.name for file in self.path.iterdir() if not file.name.startswith(".")):
                raise UserError(f"folder {self.path} holds other files ({strangers[0]}) but no run; {_ANOTHER_FOLDER}")
            return new
        if self._nothing_done():
            return new
        old = self._read_json("manifest")
        sides = [
            {"command": m["command"], "seed": m["seed"], **m["config"]}
            | {f"the content of {name}": content for name, content in m.get("inputs", {}).items()}
            for m in (new, old)
        ]
        if changed := differences(*sides):
            lines = [
                f"{key} is {side.get('reference', 'not set')!r} there, {side.get('here', 'not set')!r} here"
                for key, side in changed.items()
            ]
            more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
            raise UserError(
                f"run folder {self.path} holds another run: {', '.join(lines[:5])}{more}; "
                f"{_ANOTHER_FOLDER}, or give the same settings to go on"
            )
        return old

    def _nothing_done(self) -> bool:
        """Whether the folder holds no more than what opening it wrote, as after a first attempt that was refused."""
        return not any(file.name not in _OPENING and not file.name.startswith(".") for file in self.path.iterdir())

    @property
    def finished(self) -> bool:
        """Whether the run has written its summary: there is nothing left to do."""
        return (self.path / "summary.json").exists()

    @property
    def summary(self) -> dict[str, Any]:
        """What `finish` wrote; only of a finished run."""
        return self._read_json("summary")

    def records(self, name: str) -> Records:
        """Return the append-only records `<name>.jsonl` of this run."""
        return Records(self.path / f"{name}.jsonl", writer=self.writer)

    def write_json(self, name: str, value: Any) -> None:
        """Write `<name>.json` in one step (NaN and infinities as null)."""
        if self.writer:
            write_atomically(self.path / f"{name}.json", strict_json(value, indent=2) + "\n")

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`: the run is finished."""
        self.write_json("summary", summary)

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.path / f"{name}.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read: {error}; {_ANOTHER_FOLDER}") from error
        assert isinstance(value, dict)
        return value


def _circumstances() -> dict[str, Any]:
    """With what a run was started: time, versions, git commit and hardware, all without importing torch."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command_line": _command_line(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "num_cpus": os.cpu_count(),
        "gpus": _gpus(),
        "num_processes": int(os.environ.get("WORLD_SIZE", "1")),
        "git": _git_commit(),
        "versions": versions,
    }


def _command_line() -> str:
    """Return what was typed, as it can be typed again; `sif` for this package's own command."""
    program = Path(sys.argv[0])
    name = "sif" if program.parts[-2:] == ("cli", "main.py") else program.name
    return shlex.join([name, *sys.argv[1:]])


def _gpus() -> list[str]:
    """Return the names of NVIDIA's devices as the driver lists them; empty where there are none."""
    infos = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = [line for info in infos for line in info.read_text().splitlines()]
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]


def _git_commit() -> str | None:
    """Return the commit of the checkout that this package runs from, `-dirty` when it was changed; else None."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return None
    describe = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        done = subprocess.run(describe, cwd=checkout, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git here
        return None
    return done.stdout.strip() or None
