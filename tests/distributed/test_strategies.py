"""Two processes under each launch file give the weights of one, with all weights trained and with an adapter.

FSDP runs here because the worker lets accelerate take the CPU for a GPU; DeepSpeed has a CPU backend of its own. What
needs real GPUs (NCCL, bf16, QLoRA) is marked so.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

WORKER = Path(__file__).with_name("recipe_worker.py")
CPU = ("use_cpu=false", "ddp_backend=gloo")
STRATEGIES = {  # launch file: (what accelerate must say it does, worker's arguments on a CPU)
    "cpu_gloo": ("MULTI_CPU", ()),
    "fsdp2": ("FSDP", (*CPU, "--fake-gpu")),
    "zero2": ("DEEPSPEED", CPU),
    "zero3": ("DEEPSPEED", CPU),
}
LORA = ("lora_r=4", "merge=true")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}  # the order of a sum differs between one process and two

needs_deepspeed = pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="needs the extra deepspeed")
CASES = [
    pytest.param("cpu_gloo"),
    pytest.param("fsdp2", marks=pytest.mark.slow),
    pytest.param("zero2", marks=[pytest.mark.slow, needs_deepspeed]),
    pytest.param("zero3", marks=[pytest.mark.slow, needs_deepspeed]),
]


@pytest.fixture(scope="module")
def straight(recipe: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> dict[str, Path]:
    """What a single process comes to, without a launcher."""
    import subprocess
    import sys

    folders = {}
    for name, options in (("all", ()), ("lora", LORA)):
        folders[name] = tmp_path_factory.mktemp(name) / "run"
        command = [sys.executable, str(WORKER), str(recipe), str(folders[name]), *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    return folders


def same_weights(found: Path, wanted: Path, start: Path | None = None) -> None:
    found_weights, wanted_weights = load_file(found), load_file(wanted)
    assert set(found_weights) == set(wanted_weights)
    for name, value in wanted_weights.items():
        torch.testing.assert_close(found_weights[name].float(), value, **TOLERANCE, msg=name)
    if start is not None:
        before = load_file(start)
        assert max((wanted_weights[name] - before[name]).abs().max() for name in before) > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_the_weights_of_one(
    name: str, recipe: Path, straight: dict[str, Path], launch: Callable, tmp_path: Path
) -> None:
    kind, options = STRATEGIES[name]
    done = launch(name, WORKER, recipe, tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr[-3000:]
    how = json.loads((tmp_path / "run" / "how.json").read_text())
    assert (how["world_size"], how["type"], how["num_steps"]) == (2, kind, 5)
    file = "last/model.safetensors"
    same_weights(tmp_path / "run" / file, straight["all"] / file, recipe.parent / "policy" / "model.safetensors")


@pytest.mark.parametrize("name", CASES)
def test_an_adapter_is_resumed_and_merged(
    name: str, recipe: Path, straight: dict[str, Path], launch: Callable, tmp_path: Path
) -> None:
    _, options = STRATEGIES[name]
    killed = launch(name, WORKER, recipe, tmp_path / "run", *options, *LORA, "--kill-at", "3")
    assert killed.returncode != 0 and "SIGKILL" in killed.stderr
    assert (tmp_path / "run" / "checkpoint-2" / "COMPLETE").exists() and not (tmp_path / "run" / "last").exists()
    done = launch(name, WORKER, recipe, tmp_path / "run", *options, *LORA)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "going on from" in done.stderr
    for file in ("last/adapter_model.safetensors", "merged/model.safetensors"):
        same_weights(tmp_path / "run" / file, straight["lora"] / file)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["ddp", "fsdp2", "zero2", "zero3"])
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_give_the_weights_of_one_process(
    name: str, recipe: Path, straight: dict[str, Path], launch: Callable, tmp_path: Path
) -> None:
    done = launch(name, WORKER, recipe, tmp_path / "run", "dtype=float32", "bf16=false")
    assert done.returncode == 0, done.stderr[-3000:]
    file = "last/model.safetensors"
    same_weights(tmp_path / "run" / file, straight["all"] / file)
