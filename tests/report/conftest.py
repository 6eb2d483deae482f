"""Tiny run folders of every kind for the pages: real ones, made by the commands, and one with texts that mean harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest imports with importlib: made_runs.py is found here

from made_runs import COMMANDS, HOSTILE, make_run, make_study, sample

ROOT = Path(__file__).parents[2]
RUN_ALL = "import json, sys; from sif_trainer.cli.main import main; sys.exit(sum(map(main, json.loads(sys.argv[1]))))"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of every kind, by its command; the smallest that the commands make."""
    folder = tmp_path_factory.mktemp("runs")
    found = {name: folder / name for name in COMMANDS}
    calls = [[*arguments, "--run", str(found[name])] for name, arguments in COMMANDS.items()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN_ALL, json.dumps(calls)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return found | {"study": make_study(folder / "study", found["train"])}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run whose prompts, names and completions are meant to steer the page or the terminal."""
    samples = [
        sample(group=group, member=member, text=text, prompt=text, id=text[:200], tokens=[text[:9], text[9:]],
               token_certainty=[1.0, 2.0])
        for group, text in enumerate(HOSTILE.values())
        for member in (0, 1)
    ]  # fmt: skip
    return make_run(tmp_path / "<b>hostile</b>", samples)
