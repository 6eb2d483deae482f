"""A run folder as its page reads it; finished or not, of any command.

run = read_run(Path("runs/train/smoke/quickstart"))
run.kind, run.finished, run.records("metrics")
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.flat_yaml import parse_mapping
from sif_trainer.runs.records import Records

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One run folder.

    Attributes:
        label: what the run is called on a page; short, and its own among the page's runs.
        manifest: command, configuration, seed, and the circumstances of every start.
        findings: what `analysis` made of the records, where the command line asked it; report may not.
    """

    path: Path
    label: str
    manifest: dict[str, Any]
    findings: Values | None = None

    @property
    def kind(self) -> str:
        """The command that made it: `train`, `eval`, `jointcore`."""
        return str(self.manifest["command"]).partition(" ")[0]

    @property
    def stage(self) -> str:
        """The command's stage, such as `exact` of `jointcore exact`; empty without."""
        return str(self.manifest["command"]).partition(" ")[2]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return dict(self.manifest["config"])

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """What the run came to; None as long as it has not ended."""
        return self.json("summary")

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.summary is not None

    @cached_property
    def paper_diff(self) -> dict[str, Any] | None:
        """Where the configuration differs from the paper's: `{key: {here, reference}}`; None if not compared."""
        path = self.path / "paper_diff.yaml"
        return parse_mapping(path.read_text(encoding="utf-8"), str(path)) if path.exists() else None

    @property
    def last_record(self) -> datetime:
        """When something was last recorded."""
        return datetime.fromtimestamp(max(path.stat().st_mtime for path in self.path.glob("*.json*")), UTC)

    def json(self, name: str) -> dict[str, Any] | None:
        """Return what `<name>.json` holds; None where there is no such file."""
        path = self.path / f"{name}.json"
        try:
            value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise UserError(f"{path} is not JSON ({error}); restore it, or run again into another folder") from error
        return value

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the records of `<name>.jsonl`, oldest first; none where there is no such file."""
        return list(Records(self.path / f"{name}.jsonl", writer=False))


def read_run(path: Path) -> Run:
    """Open a run folder for reading.

    Raises:
        UserError: when the folder holds no run, or a manifest that cannot be read.
    """
    if not (path / "manifest.json").exists():
        inner = next(iter(sorted(path.glob("*/manifest.json"))), None) if path.is_dir() else None
        hint = f"; did you mean {inner.parent}?" if inner else ""
        raise UserError(f"{path} holds no run: there is no {path / 'manifest.json'}{hint}")
    run = Run(path, path.resolve().name, {})
    return replace(run, manifest=run.json("manifest") or {})


def with_labels(runs: Sequence[Run]) -> list[Run]:
    """Call runs that are shown together by where they differ: `sif/seed1` and `top2/seed1`, not twice `seed1`."""
    if len({run.label for run in runs}) == len(runs):
        return list(runs)
    paths = [run.path.resolve() for run in runs]
    common = os.path.commonpath(paths)
    names = [str(path.relative_to(common)) for path in paths]
    return [replace(run, label=run.label if name == "." else name) for run, name in zip(runs, names, strict=True)]
