"""Fixtures of the BALAR tests: the files beside this one that are no tests, and small cases."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from sif_trainer.systems.balar import Case, User


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def scripted_agent() -> ModuleType:
    return _load("scripted_agent")


@pytest.fixture(scope="session")
def plain_loop() -> ModuleType:
    return _load("plain_loop")


@pytest.fixture
def case() -> Case:
    """Two users, three options."""
    users = (User("Ada", "a gardener"), User("Ben", "a cook"))
    return Case("c-1", "Who took the spoon?", "A spoon is gone.", users, ("Ada", "Ben", "the cat"))


@pytest.fixture
def puzzle() -> Case:
    """One user, a free answer."""
    return Case("p-1", "Explain this.", "A man laughs at a wall.", (User("host", "knows the explanation"),))
