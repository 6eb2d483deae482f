"""Code of the user's own, named in a setting: `FILE.py:NAME`, or `module:NAME`.

    load_own("longest_sure.py:longest_sure")

A file is executed once in a process, however often it is named, so that what it keeps is kept. This module imports
nothing of ours: rules, scorers and judges all come through it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any


def load_own(name: str) -> Any:
    """Return what the name stands for.

    Raises:
        ValueError: no such file, module or name, or one that cannot be loaded.
    """
    source, _, attribute = name.rpartition(":")
    if not source or not attribute:
        raise ValueError(f"'{name}' names nothing; write FILE.py:NAME or module:NAME")
    if (file := own_file(name)) is not None and not Path(file).is_file():
        raise ValueError(f"'{name}': there is no file {file} (looked for in {Path.cwd()})")
    try:
        module = importlib.import_module(source) if file is None else _execute(Path(file).resolve())
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise ValueError(f"'{name}': {source} cannot be loaded: {type(error).__name__}: {error}") from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError as error:
        raise ValueError(f"'{name}': {source} holds no '{attribute}'") from error


def own_file(name: str) -> str | None:
    """Return the FILE of `FILE.py:NAME`; None of any other name."""
    source = name.rpartition(":")[0]
    return source if source.endswith(".py") else None


@cache
def _execute(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{__name__}:{file}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
