"""A launch that started another number of processes, or dropped its sharding, is refused; one that is right is not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.launched import check_strategy, check_world_size

BY_ACCELERATE = {"ACCELERATE_MIXED_PRECISION": "no"}
MEETING = {**BY_ACCELERATE, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        BY_ACCELERATE,
        {**MEETING, "WORLD_SIZE": "2"},
        {"MASTER_ADDR": "a", "WORLD_SIZE": "2"},
        {"SIF_WORLD_SIZE": "2", "WORLD_SIZE": "2"},
        {"SIF_WORLD_SIZE": "1"},
        {"MASTER_ADDR": "left over from another tool"},
    ],
)
def test_a_launch_as_asked_for(environment: dict[str, str]) -> None:
    check_world_size(environment)


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        (MEETING, "asked for several processes and started one"),
        ({"SIF_WORLD_SIZE": "8"}, "was to start 8 processes"),
        ({"SIF_WORLD_SIZE": "abc"}, "SIF_WORLD_SIZE is 'abc'"),
        ({"SIF_WORLD_SIZE": "8", "WORLD_SIZE": "4"}, "but 4 runs"),
    ],
)
def test_another_number_of_processes(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        check_world_size(environment)


def config(kind: str, deepspeed: object = None) -> SimpleNamespace:
    state = SimpleNamespace(distributed_type=SimpleNamespace(value=kind))
    return SimpleNamespace(distributed_state=state, deepspeed_plugin=deepspeed)


def test_sharding() -> None:
    fsdp, deepspeed = {"ACCELERATE_USE_FSDP": "true"}, {"ACCELERATE_USE_DEEPSPEED": "true"}
    check_strategy(config("MULTI_CPU"), {})
    check_strategy(config("MULTI_GPU"), fsdp)
    check_strategy(config("MULTI_GPU", deepspeed=object()), deepspeed)
    with pytest.raises(UserError, match="asks for FSDP, but accelerate would run MULTI_CPU"):
        check_strategy(config("MULTI_CPU"), fsdp)
    with pytest.raises(UserError, match="asks for DeepSpeed, but accelerate would run MULTI_CPU"):
        check_strategy(config("MULTI_CPU"), deepspeed)
