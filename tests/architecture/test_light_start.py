"""Starting is light: what is asked for at once must not wait for torch. Modules are counted, not seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sif_trainer.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
HEAVY = {"accelerate", "datasets", "matplotlib", "numpy", "pandas", "peft", "torch", "transformers", "trl"}


def heavy_modules_after(statement: str) -> set[str]:
    """The heavy libraries that a fresh interpreter has imported after a statement."""
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\nprint('modules', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {module.partition(".")[0] for module in done.stdout.split("modules", 1)[1].split()} & HEAVY


@pytest.mark.parametrize(
    "statement",
    [
        "import sif_trainer; sif_trainer.__version__",
        "from sif_trainer.cli.main import main; main(['--help'])",
        "from sif_trainer.cli.main import main; main(['--version'])",
        *(f"from sif_trainer.cli.main import main; main(['{command}', '--help'])" for command in COMMANDS),
        "import sif_trainer.runs.folder, sif_trainer.runs.progress",
    ],
)
def test_no_heavy_library_is_imported(statement: str) -> None:
    assert heavy_modules_after(statement) == set()


def test_the_count_sees_a_heavy_library() -> None:
    assert "torch" in heavy_modules_after("import sif_trainer; sif_trainer.SIFConfig")
