"""docs/balar.md: its chat is what the command shows, and it names every setting and method."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from sif_trainer.systems.balar.chat import ChatRecipe
from sif_trainer.systems.balar.environments.instances import DATA_SETS
from sif_trainer.systems.balar.recipe import METHODS, BalarRecipe

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "balar.md").read_text(encoding="utf-8")


def test_the_page_names_every_setting_method_and_data_set():
    for name in (
        *METHODS,
        *DATA_SETS,
        *(field.name for schema in (BalarRecipe, ChatRecipe) for field in fields(schema)),
    ):
        assert f"`{name}`" in TEXT, name


def test_the_chat_is_what_the_command_shows(tmp_path):
    (session,) = re.findall(r"```text\n(.*?)```", TEXT, re.S)
    typed = re.findall(r"^> (.*)$", session, re.M)
    done = subprocess.run(
        [sys.executable, "-m", "sif_trainer.cli.main", "balar", "chat", "balar/chat", "--run", str(tmp_path / "run")],
        input="".join(f"{line}\n" for line in typed),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "78"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = [line.rstrip() for line in done.stdout.splitlines()]
    assert shown == session.splitlines()
