"""The import rules of docs/architecture.md, read from the source; lazy and relative imports count as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sif_trainer"

# What of ours a room may import besides itself. `policy` is any module of that room, `data.prompts` that one module.
STUDY = {"data", "evaluation.estimate", "own_code", "policy", "runs", "tasks"}
MAY_IMPORT: dict[str, set[str]] = {
    "certainty": set(),
    "own_code": set(),
    "feedback": {"own_code", "tasks.extract"},
    "runs": set(),
    "policy": {"certainty", "runs"},
    "data": {"runs", "tasks"},
    "tasks": {"data", "runs"},
    "trainer": {"certainty", "data.prompts", "feedback", "policy", "runs"},
    "evaluation": {"data", "policy", "runs", "tasks"},
    "systems.jointcore": STUDY,
    "systems.balar": STUDY,
    "systems.adap": STUDY,
    "probe": {"certainty", "evaluation.estimate", "feedback", "policy", "runs", "trainer"},
    "analysis": {"runs"},
    "report": {"runs"},
    "cli": {
        "analysis",
        "certainty",
        "data",
        "evaluation",
        "feedback",
        "policy",
        "probe",
        "report",
        "runs",
        "systems",
        "tasks",
        "trainer",
    },
}
HEALTH = "trainer.health"  # watches for collapse with reference answers; the one file of the trainer that may see them
READS_ANSWERS = {"cli", "evaluation", "systems", "tasks", HEALTH}
NEVER_IMPORTS = {  # libraries
    "certainty": {"trl"},
    "feedback": {"trl"},
    "runs": {"accelerate", "datasets", "numpy", "torch", "transformers", "trl"},
}
LAZY_NAMES = {"SIFConfig": "trainer.config", "SIFTrainer": "trainer.trainer"}  # what `from sif_trainer import` brings
DUMPING_GROUNDS = {"common", "helper", "helpers", "misc", "util", "utils"}
MOST_LINES = 400


def within(module: str, part: str) -> bool:
    """Whether a module is a part, or lies in it."""
    return module == part or module.startswith(f"{part}.")


def modules(package: Path) -> dict[str, Path]:
    """Every module by its dotted name in the package; a folder's `__init__` by the folder's name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(module: str, path: Path, package: str) -> Iterator[str]:
    """Absolute names of all that a file imports, at its top or within functions."""
    here = [package, *module.split(".")] if module else [package]
    folder = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def ours(names: Iterator[str], known: dict[str, Path], package: str) -> set[str]:
    """The modules of the package among the names: `feedback.sif` for `sif_trainer.feedback.sif.decide`."""
    found = set()
    for name in names:
        if not within(name, package):
            continue
        inner = name.removeprefix(package).removeprefix(".")
        inner = LAZY_NAMES.get(inner, inner)
        parent = inner.rpartition(".")[0]
        found.add(inner if inner in known else parent)
    return found - {""}


def violations(package: Path) -> list[str]:
    """Every broken rule, one line each."""
    known = modules(package)
    rooms = sorted(MAY_IMPORT, key=len, reverse=True)
    graph, found = {}, []
    for module, path in known.items():
        names = list(imports(module, path, package.name))
        graph[module] = ours(iter(names), known, package.name)
        room = next((room for room in rooms if within(module, room)), None)
        if room is None:
            if module not in ("", "systems"):
                found.append(f"{module}: no room of the table; add it there first")
            continue
        for target in sorted(graph[module]):
            if not any(within(target, part) for part in (room, *MAY_IMPORT[room])):
                if (module, target) != (HEALTH, "data.answers"):
                    found.append(f"{module}: {room} may not import {target}")
            elif within(target, "data.answers") and not any(within(module, part) for part in READS_ANSWERS):
                found.append(f"{module}: may not read reference answers")
        libraries = {name.partition(".")[0] for name in names} & NEVER_IMPORTS.get(room, set())
        found += [f"{module}: {room} may not import {library}" for library in sorted(libraries)]
    return found + roads_to_answers(graph)


def roads_to_answers(graph: dict[str, set[str]]) -> list[str]:
    """Training modules from which a chain of imports leads to reference answers, grading or an exam."""
    found = []
    for module in graph:
        if not within(module, "trainer") or module == HEALTH:
            continue
        reached, ahead = set(), [module]
        while ahead:
            for target in graph.get(ahead.pop(), set()) - reached - {HEALTH}:
                reached.add(target)
                ahead.append(target)
        labels = [end for end in ("data.answers", "tasks.grade", "evaluation", "systems") if end in reached]
        found += [f"{module}: a chain of imports leads to {label}" for label in labels]
    return found


def test_rooms_import_only_what_the_table_allows() -> None:
    assert violations(PACKAGE) == []


def test_no_file_is_too_long_or_a_dumping_ground() -> None:
    for module, path in modules(PACKAGE).items():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, (
            f"{path}: what second thing does it do?"
        )
        assert not DUMPING_GROUNDS & set(module.split(".")), f"{path}: name what is in it"


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("certainty/head.py", "from sif_trainer.runs.errors import UserError", "certainty may not import runs.errors"),
        ("certainty/head.py", "import trl.trainer", "certainty may not import trl"),
        ("feedback/sif.py", "def f():\n    from sif_trainer.data.answers import load", "feedback may not import data"),
        ("runs/folder.py", "def f():\n    import torch", "runs may not import torch"),
        ("runs/folder.py", "from ..cli import main", "runs may not import cli.main"),
        ("trainer/trainer.py", "from ..data import answers", "trainer may not import data.answers"),
        ("trainer/trainer.py", "import sif_trainer.tasks.grade", "trainer may not import tasks.grade"),
        ("trainer/run.py", "from sif_trainer.data.prompts import load", "chain of imports leads to data.answers"),
        (
            "data/sources.py",
            "from sif_trainer.data.answers import load",
            "data.sources: may not read reference answers",
        ),
        ("systems/adap/loop.py", "from sif_trainer.systems import balar", "systems.adap may not import systems.balar"),
        ("evaluation/sample.py", "from sif_trainer import SIFTrainer", "evaluation may not import trainer.trainer"),
        ("policy/load.py", "import_module('sif_trainer.tasks.grade')", "policy may not import tasks.grade"),
        ("shed/box.py", "", "shed.box: no room of the table"),
    ],
)
def test_a_broken_rule_is_found(tmp_path: Path, module: str, source: str, complaint: str) -> None:
    package = tmp_path / "sif_trainer"
    others = {
        "cli/main.py": "",
        "data/answers.py": "",
        "data/prompts.py": "import sif_trainer.tasks.rows" if module == "trainer/run.py" else "",
        "runs/errors.py": "",
        "systems/balar/__init__.py": "",
        "tasks/grade.py": "",
        "tasks/rows.py": "from sif_trainer.data import answers",
        "trainer/health.py": "from sif_trainer.data.answers import load",
        "trainer/trainer.py": "from sif_trainer.runs import errors",
    }
    for name, text in others.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    assert violations(package) == []
    (package / module).parent.mkdir(parents=True, exist_ok=True)
    (package / module).write_text(source)
    assert any(complaint in line for line in violations(package))
