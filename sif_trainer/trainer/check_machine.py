"""The checks of the machine: package versions, disk, ports, GPUs, and whether the forecast fits.

Versions are held against the installed package's own requirements, or, in a checkout that is not installed, against
pyproject.toml; so the tested ranges stand in one place.
"""

from __future__ import annotations

import os
import shutil
import socket
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers.utils.versions import require_version

from sif_trainer.trainer.check import Finding
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.launched import Launch
from sif_trainer.trainer.memory import MemoryForecast

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_GIB = 2**30


def requirements() -> list[tuple[str, str | None]]:
    """Every requirement of this package, with the extra that it belongs to: `("trl>=1.14.2,<1.17", None)`.

    An extra that stands for others (`sif-trainer[docs]`) requires nothing that those do not.
    """
    return [(line, extra) for line, extra in _declared() if not line.startswith("sif-trainer[")]


def _declared() -> list[tuple[str, str | None]]:
    try:
        lines = metadata.requires("sif-trainer") or []
    except metadata.PackageNotFoundError:
        if not _PYPROJECT.is_file():
            return []
        project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"].items()
        return [
            *((line, None) for line in project["dependencies"]),
            *((line, name) for name, lines in extras for line in lines),
        ]
    parted = [line.partition(";") for line in lines]
    return [(line.strip(), rest.partition("extra ==")[2].strip(" '\"") or None) for line, _, rest in parted]


def versions(tested: list[tuple[str, str | None]]) -> Iterator[Finding]:
    """Installed packages that lie outside the tested ranges; optional ones only where they are installed."""
    if not tested:
        yield Finding("note", "versions", "the tested ranges are not known here: neither installed nor a checkout")
    wrong = 0
    for requirement, extra in tested:
        try:
            require_version(requirement)
        except metadata.PackageNotFoundError:
            if extra is None:
                wrong += 1
                yield Finding("problem", "versions", f"{requirement} is needed and not installed")
        except ImportError as error:
            if extra != "dev":
                wrong += 1
                yield Finding("problem" if extra is None else "warning", "versions", _first_sentence(error))
    if tested and not wrong:
        yield Finding("note", "versions", "installed packages are within the tested ranges")


def disk(folder: Path, forecast: MemoryForecast, config: SIFConfig) -> Iterator[Finding]:
    """Room for the checkpoints that are kept at once, each with the optimizer, and for the models beside them."""
    model = 4 * forecast.num_parameters
    resumable = model + 8 * forecast.num_trained
    kept = 1 + (config.save_total_limit or 10)  # one more while it is written; without a limit, say ten
    needed = kept * resumable + 3 * model  # last/, best/ and healthy/
    existing = next(path for path in [folder.absolute(), *folder.absolute().parents] if path.exists())
    free = shutil.disk_usage(existing).free
    text = f"checkpoints may take {needed / _GIB:.1f} GiB (computed), {free / _GIB:.1f} GiB are free in {existing}"
    yield Finding("problem" if needed > free else "note", "disk", text)


def ports(config: SIFConfig, launch: Launch, environment: Any = os.environ) -> Iterator[Finding]:
    """The port at which machines meet must be free, and a vLLM server must answer.

    On one machine accelerate takes another port where this one is taken.
    """
    if launch.num_machines > 1:
        port = int(environment.get("MAIN_PORT") or launch.port or 29500)
        if answers("127.0.0.1", port):
            yield Finding("problem", "ports", f"port {port}, at which the machines meet, is taken; set MAIN_PORT")
        else:
            yield Finding("note", "ports", f"port {port}, at which the machines meet, is free on this one")
    if config.use_vllm and config.vllm_mode == "server" and not config.vllm_server_base_url:
        host, port = config.vllm_server_host, config.vllm_server_port
        if answers(host, port):
            yield Finding("note", "ports", f"something answers at {host}:{port}, where the vLLM server is expected")
        else:
            text = f"no vLLM server answers at {host}:{port}; start launch/vllm_server.sh RECIPE first"
            yield Finding("warning", "ports", text)


def answers(host: str, port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        probe.settimeout(2)
        try:
            return probe.connect_ex((host, port)) == 0
        except OSError:  # a name that no machine has
            return False


def gpus(launch: Launch, forecast: MemoryForecast, names: list[str], memory: int) -> Iterator[Finding]:
    """Enough devices for the processes, each with room for the forecast.

    Args:
        launch: processes and machines.
        forecast: of memory.
        names: devices of this machine; empty where there are none.
        memory: bytes of each, or of main memory where there are none.
    """
    here = launch.num_processes // launch.num_machines
    peak = f"{forecast.peak / _GIB:.1f} GiB per process (computed)"
    if not names:
        yield Finding("note", "gpus", f"no GPU here: {here} on the CPU")
    elif here > len(names):
        text = f"the launch file asks for {here} processes on this machine, which has {len(names)}: {', '.join(names)}"
        yield Finding("problem", "gpus", text)
    else:
        yield Finding("note", "gpus", f"{here} of {len(names)}: {', '.join(names[:here])}")
    needed = forecast.peak * (1 if names else here)
    where = "each has" if names else "this machine has"
    if needed > memory:
        text = (
            f"{peak} will not fit: {where} {memory / _GIB:.1f} GiB; lower per_device_train_batch_size, set "
            "gradient_checkpointing=true or use_vllm=true, shard with ZeRO or FSDP2, or train an adapter (lora_r=16)"
        )
        yield Finding("problem", "memory", text)
    elif needed > 0.85 * memory:
        yield Finding("warning", "memory", f"{peak} is close to what {where}: {memory / _GIB:.1f} GiB")
    if forecast.host * here > main_memory():
        text = f"offloading takes {forecast.host * here / _GIB:.1f} GiB of main memory, which has less"
        yield Finding("problem", "memory", text)


def devices() -> tuple[list[str], int]:
    """Names of this machine's GPUs and the memory of the smallest; of main memory where there are none."""
    if not torch.cuda.is_available():
        return [], main_memory()
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [device.name for device in found], min(device.total_memory for device in found)


def main_memory() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _first_sentence(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
