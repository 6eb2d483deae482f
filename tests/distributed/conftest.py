"""A tiny recipe on disk, and launches of it as users make them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "trainer"))
import tiny  # noqa: E402

SETTINGS = {
    **tiny.VOTE,
    "max_steps": 5,
    "save_steps": 2,
    "save_total_limit": 2,
    "learning_rate": 0.1,
    "beta": 0.1,
    "warmup_steps": 0,
    "optim": "adamw_torch",
    "adam_epsilon": 1.0,  # AdamW would make a difference in the last bit of a small gradient a whole step
    "health": "off",
    "seed": 3,
}
Launched = subprocess.CompletedProcess


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    tiny.model().save_pretrained(folder / "policy")
    tiny.tokenizer().save_pretrained(folder / "policy")
    rows = [json.dumps({"problem": f"say {i}"}) + "\n" for i in range(24)]
    (folder / "prompts.jsonl").write_text("".join(rows))
    path = folder / "tiny.yaml"
    path.write_text(
        yaml.safe_dump({"model": str(folder / "policy"), "prompts": str(folder / "prompts.jsonl"), **SETTINGS})
    )
    return path


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One thread per process, no network, this checkout's package, and a `sif` on the path."""
    tools = tmp_path_factory.mktemp("bin")
    command = tools / "sif"
    command.write_text(f'#!/bin/bash\nexec {sys.executable} -m sif_trainer.cli.main "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "MASTER"))},
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
    }


@pytest.fixture
def launch(environment: dict[str, str], tmp_path: Path) -> Callable[..., Launched]:
    """`launch("zero2", worker_or_module, ...)`: `accelerate launch` with one of our files, on its own port."""

    def run(file: str | Path, *arguments: object, num_processes: int | None = 2, timeout: float = 240) -> Launched:
        path = file if isinstance(file, Path) else ROOT / "launch" / "accelerate" / f"{file}.yaml"
        command = ["accelerate", "launch", "--config_file", str(path), "--mixed_precision", "no"]
        if num_processes is not None:
            command += ["--num_processes", str(num_processes), "--main_process_port", str(free_port())]
        return run_group([*command, *map(str, arguments)], environment, tmp_path, timeout)

    return run


def run_group(command: list[str], environment: dict[str, str], folder: Path, timeout: float) -> Launched:
    """Run a launcher with all that it starts; when it takes too long, all of it ends."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=folder, **pipes) as launcher:
        try:
            out, errors = launcher.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            launcher.terminate()  # it ends its workers, which are in sessions of their own
            launcher.wait(timeout=60)
            raise
    return subprocess.CompletedProcess(command, launcher.returncode, out, errors)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
