"""What the package imports is declared in pyproject.toml, with the versions that the tests run with."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def name_of(requirement: str) -> str:
    """`trl` of `trl>=1.14.2,!=1.15.0`, as package names are compared."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def pins(file: str) -> dict[str, str]:
    """Package and version of each `package==version` line."""
    lines = (ROOT / "tests" / file).read_text(encoding="utf-8").splitlines()
    return {name_of(line): line.split("==")[1] for line in lines if line and not line.startswith("#")}


def foreign_imports(path: Path) -> set[str]:
    """Top names of the libraries that a file imports, standard library and ours excepted."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"sif_trainer"}


def test_every_library_that_is_imported_is_declared() -> None:
    declared = {
        name_of(line) for line in [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
    }
    owners = metadata.packages_distributions()
    for path in sorted((ROOT / "sif_trainer").rglob("*.py")):
        for library in foreign_imports(path):
            distributions = {name_of(name) for name in owners.get(library, [library])}
            assert distributions & declared, f"{path}: '{library}' is not in pyproject.toml"


def test_every_floor_is_tested_and_every_dependency_pinned() -> None:
    oldest, newest = pins("constraints-oldest.txt"), pins("constraints.txt")
    for requirement in PROJECT["dependencies"]:
        floor = re.search(r">=([\d.]+)", requirement)[1]
        assert oldest[name_of(requirement)] == floor, (
            f"{requirement}: its floor is not what constraints-oldest.txt has"
        )
        assert name_of(requirement) in newest, f"{requirement}: not in constraints.txt"
