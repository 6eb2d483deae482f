"""Data parallel evaluation: each process takes every n-th problem.

    accelerate launch --num_processes 4 -m sif_trainer.cli.main eval evaluate/sif12 model=...

`torchrun` serves as well: what counts are the environment variables RANK, LOCAL_RANK and WORLD_SIZE. Each process has
its own accelerators (as many as the engine's tensor_parallel_size) and a file of records; processes meet only twice,
after the run folder is opened and when all samples are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among those that share the work."""

    rank: int = 0
    num: int = 1

    @classmethod
    def join(cls, devices_each: int = 1) -> Processes:
        """Meet the processes that were launched together, if any; call it before anything touches an accelerator."""
        num = int(os.environ.get("WORLD_SIZE", "1"))
        if num == 1:
            return cls()
        local_rank, visible = int(os.environ.get("LOCAL_RANK", "0")), os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = own_devices(local_rank, devices_each, visible)

        import torch.distributed as dist

        dist.init_process_group("gloo", timeout=timedelta(days=30))
        return cls(dist.get_rank(), num)

    @classmethod
    def current(cls) -> Processes:
        """Return the processes of a distributed run that goes on, such as a training; one if there is none."""
        import torch.distributed as dist

        return cls(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else cls()

    def share(self, items: Sequence[T]) -> list[T]:
        """Return this process's part of the items."""
        return list(items[self.rank :: self.num])

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.num > 1:
            import torch.distributed as dist

            dist.barrier()

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes, in every one of them: the inverse of `share`."""
        if self.num == 1:
            return items
        import torch.distributed as dist

        parts: list[list[T]] = [[] for _ in range(self.num)]
        dist.all_gather_object(parts, items)
        return [part[place] for place in range(len(parts[0])) for part in parts if place < len(part)]


def own_devices(local_rank: int, devices_each: int, visible: str | None) -> str:
    """Return the CUDA devices of one process: its `devices_each` of those that are visible (None: all).

    A machine with fewer gives the last processes none, which then use their CPU.
    """
    places = range(local_rank * devices_each, (local_rank + 1) * devices_each)
    if visible is None:
        return ",".join(map(str, places))
    names = [name for name in visible.split(",") if name]
    return ",".join(names[place] for place in places if place < len(names))
