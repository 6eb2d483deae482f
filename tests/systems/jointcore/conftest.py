"""Fixtures of the JointCore tests: the published vectors, the tasks built once, and the set-based yardstick."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sif_trainer.systems.jointcore.tasks import Task, exact_tasks, model_tasks


@pytest.fixture(scope="session")
def vectors(shared: Path):
    """Read one fixture file of the published benchmark: an object for .json, a list of them for .jsonl."""

    def read(name: str) -> Any:
        text = (shared / "fixtures" / "jointcore" / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)

    return read


@pytest.fixture(scope="session")
def exact() -> list[Task]:
    return list(exact_tasks())


@pytest.fixture(scope="session")
def model() -> list[Task]:
    return list(model_tasks())


@pytest.fixture(scope="session")
def set_based() -> ModuleType:
    spec = importlib.util.spec_from_file_location("set_based", Path(__file__).with_name("set_based.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
