"""Fixtures of the ADAP tests: the recorded pools and expectations, small pools of every kind, the plain oracle."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def adap_fixtures(shared: Path) -> Path:
    return shared / "fixtures" / "adap"


@pytest.fixture(scope="session")
def expected(adap_fixtures: Path):
    """Read one fixture file."""

    def read(name: str) -> Any:
        return json.loads((adap_fixtures / name).read_text(encoding="utf-8"))

    return read


@pytest.fixture(scope="session")
def plain() -> ModuleType:
    """The oracle, `plain.py`."""
    spec = importlib.util.spec_from_file_location("plain", Path(__file__).with_name("plain.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module
