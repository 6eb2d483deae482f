"""Is the training what the launch asked for? Accelerate can start fewer processes, or shard nothing, without a word.

    SIF_WORLD_SIZE=8 accelerate launch --config_file launch/accelerate/zero2.yaml -m sif_trainer.cli.main train …

`accelerate launch` starts one process where it finds no GPUs, though its file names more, and FSDP becomes DDP on
devices that it does not shard on. Both runs would train something else than was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.flat_yaml import parse_mapping

EXPECTED = "SIF_WORLD_SIZE"  # launch/*.sh and *.slurm set it from the launch file


Strategy = Literal["none", "ddp", "zero2", "zero3", "fsdp2"]


@dataclass(frozen=True)
class Launch:
    """What a launch file of accelerate asks for."""

    num_processes: int = 1
    num_machines: int = 1
    strategy: Strategy = "none"
    offload: bool = False
    mixed_precision: str = "no"
    port: int | None = None
    """Where the processes of several machines meet, if the file says so."""


def read_launch(path: str | Path) -> Launch:
    """Read an accelerate configuration file.

    Raises:
        UserError: not there, not YAML, no numbers where there must be, or a kind of distribution that is not tested.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"launch file {path} cannot be read: {error.strerror}") from error
    values = parse_mapping(text, str(path))
    kind = str(values.get("distributed_type", "NO"))
    shards, fsdp = (_mapping(values, name, path) for name in ("deepspeed_config", "fsdp_config"))
    if kind == "FSDP":
        kind += str(fsdp.get("fsdp_version", 1))  # accelerate's own default
    strategies = {"NO": "none", "MULTI_GPU": "ddp", "FSDP2": "fsdp2", "DEEPSPEED": f"zero{shards.get('zero_stage')}"}
    strategy = strategies.get(kind)
    if strategy not in ("none", "ddp", "zero2", "zero3", "fsdp2"):
        raise UserError(
            f"launch file {path}: distributed_type {kind} ({strategy}) is not one of those that are tested; see "
            "launch/accelerate"
        )
    offloads = {shards.get("offload_optimizer_device"), shards.get("offload_param_device")}
    return Launch(
        num_processes=_number(values.get("num_processes", 1), f"launch file {path}: num_processes"),
        num_machines=_number(values.get("num_machines", 1), f"launch file {path}: num_machines"),
        strategy=cast(Strategy, strategy),
        offload="cpu" in offloads or bool(fsdp.get("fsdp_offload_params")),
        mixed_precision=str(values.get("mixed_precision", "no")),
        port=values.get("main_process_port") and _number(values["main_process_port"], f"{path}: main_process_port"),
    )


def _number(value: Any, name: str) -> int:
    """Return a whole number from 1 on, of a file or of the environment."""
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
        raise UserError(f"{name} is {value!r}; it must be a whole number, 1 or more")
    return int(value)


def _mapping(values: Mapping[str, Any], name: str, path: str | Path) -> Mapping[str, Any]:
    found = values.get(name) or {}
    if not isinstance(found, Mapping):
        raise UserError(f"launch file {path}: {name} is {found!r}; it must be settings, one to a line")
    return found


def check_world_size(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to start when the number of processes is not what the launch asked for.

    Accelerate names a meeting point (MASTER_ADDR) as soon as more than one process is asked for, but a world size only
    if it starts more than one.

    Raises:
        UserError: with both numbers.
    """
    started = int(environment.get("WORLD_SIZE", "1"))
    expected = environment.get(EXPECTED)
    if expected is not None and _number(expected, EXPECTED) != started:
        raise UserError(
            f"the launch was to start {expected} processes ({EXPECTED}), but {started} runs; "
            "compare num_processes, num_machines and machine_rank of the launch file with the machines there are"
        )
    by_accelerate = "ACCELERATE_MIXED_PRECISION" in environment
    if by_accelerate and "MASTER_ADDR" in environment and "WORLD_SIZE" not in environment:
        raise UserError(
            "accelerate was asked for several processes and started one, as it does on a machine without GPUs for "
            "use_cpu or MULTI_CPU; launch with launch/accelerate/cpu_gloo.yaml, or with --num_processes 1"
        )


def check_strategy(config: Any, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to train when accelerate dropped the sharding that the launch file asks for.

    Args:
        config: the trainer's settings, with accelerate's state in `distributed_state`.
        environment: of this process.

    Raises:
        UserError: naming what was asked for and what would run.
    """
    fsdp, deepspeed = (
        environment.get(f"ACCELERATE_USE_{name}", "false").lower() == "true" for name in ("FSDP", "DEEPSPEED")
    )
    runs = str(config.distributed_state.distributed_type.value) if config.distributed_state else "NO"
    # Accelerate itself notes FSDP later than this; a CPU, and one process, it never shards on.
    if (fsdp and runs in ("NO", "MULTI_CPU")) or (deepspeed and config.deepspeed_plugin is None):
        raise UserError(
            f"the launch file asks for {'FSDP' if fsdp else 'DeepSpeed'}, but accelerate would run {runs}: it does "
            "not shard on CPUs, and not with use_cpu=true; launch/accelerate/cpu_gloo.yaml is for CPUs"
        )
