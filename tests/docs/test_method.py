"""docs/method.md points at functions and tests; each of them must exist under that name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "method.md").read_text()


def defined(file: Path, name: str) -> bool:
    return re.search(rf"^\s*(def|class) {name}\b", file.read_text(), re.MULTILINE) is not None


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`((?:tests/\w+/)?test_\w+\.py)(?:::(\w+))?`", TEXT)
    assert len(named) > 30
    for path, name in named:
        file = ROOT / (path if path.startswith("tests/") else f"tests/feedback/{path}")
        assert file.is_file(), path
        assert not name or defined(file, name), f"{path}::{name}"


def test_every_function_that_is_named_exists() -> None:
    named = re.findall(r"`((?:certainty|feedback|trainer)/\w+\.py)`((?: `[\w.]+`,?)+)", TEXT)
    assert len(named) > 10
    for path, names in named:
        for name in re.findall(r"`([\w.]+)`", names):
            assert defined(ROOT / "sif_trainer" / path, name.rsplit(".", 1)[-1]), f"{path} {name}"
