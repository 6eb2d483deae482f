"""From "64 prompts a step, 8 responses each" to the batch sizes that TRL and accelerate ask for.

The user states prompts per step and the group size; `plan_batch` derives completions per device and accumulation
steps, `BatchPlan.explain` says so in a line, and an impossible combination is answered with the nearest possible ones.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_COMPLETIONS_PER_DEVICE = 8


@dataclass(frozen=True)
class BatchPlan:
    """One optimizer step: `prompts_per_step * num_generations` completions over `world_size` processes."""

    prompts_per_step: int
    num_generations: int
    world_size: int
    per_device_train_batch_size: int
    gradient_accumulation_steps: int

    def explain(self) -> str:
        """Return the arithmetic of a step in one line."""
        return (
            f"{self.prompts_per_step} prompts x {self.num_generations} responses = "
            f"{self.prompts_per_step * self.num_generations} completions per step = "
            f"{self.world_size} process{'es' if self.world_size > 1 else ''} x "
            f"{self.gradient_accumulation_steps} accumulation steps x "
            f"{self.per_device_train_batch_size} completions per device"
        )

    def explain_epoch(self, num_prompts: int) -> str:
        """Return how many steps an epoch of `num_prompts` has and how many prompts it leaves out."""
        steps, skipped = divmod(num_prompts, self.prompts_per_step)
        return f"{num_prompts:,} prompts = {steps:,} steps per epoch, the last {skipped} of each shuffle are skipped"


def plan_batch(
    prompts_per_step: int,
    num_generations: int,
    world_size: int,
    per_device_train_batch_size: int | None = None,
    gradient_accumulation_steps: int | None = None,
) -> BatchPlan:
    """Derive what is not given; without a wish, at most 8 completions per device and forward pass.

    Raises:
        ValueError: when the numbers do not fit, naming the nearest that do.
    """
    if num_generations < 2:
        raise ValueError(
            f"num_generations={num_generations}: a group needs at least 2 responses to vote (the paper: 8; below 4 "
            "every vote must be unanimous)"
        )
    if prompts_per_step < 1:
        raise ValueError(f"prompts_per_step={prompts_per_step} must be at least 1 (the paper: 64)")
    rows = prompts_per_step * num_generations
    if rows % world_size:
        fitting = [p for p in range(1, prompts_per_step + world_size + 1) if p * num_generations % world_size == 0]
        raise ValueError(
            f"prompts_per_step={prompts_per_step} x num_generations={num_generations} = {rows} completions can't be "
            f"shared equally by {world_size} processes; nearest valid prompts_per_step: "
            f"{_nearest(prompts_per_step, fitting)}"
        )
    rows_per_device = rows // world_size
    divisors = [d for d in range(1, rows_per_device + 1) if rows_per_device % d == 0]
    if per_device_train_batch_size is None and gradient_accumulation_steps is not None:
        if gradient_accumulation_steps not in divisors:
            raise ValueError(
                f"gradient_accumulation_steps={gradient_accumulation_steps} does not divide the {rows_per_device} "
                f"completions of each process; nearest valid: {_nearest(gradient_accumulation_steps, divisors)}"
            )
        per_device_train_batch_size = rows_per_device // gradient_accumulation_steps
    if per_device_train_batch_size is None:
        per_device_train_batch_size = max(d for d in divisors if d <= DEFAULT_COMPLETIONS_PER_DEVICE)
    if per_device_train_batch_size not in divisors:
        raise ValueError(
            f"per_device_train_batch_size={per_device_train_batch_size} completions does not divide the "
            f"{rows_per_device} completions of each process ({prompts_per_step} prompts x {num_generations} responses "
            f"/ {world_size} processes); nearest valid: {_nearest(per_device_train_batch_size, divisors)}"
        )
    derived = rows_per_device // per_device_train_batch_size
    if gradient_accumulation_steps not in (None, derived):
        raise ValueError(
            f"gradient_accumulation_steps={gradient_accumulation_steps} contradicts {rows_per_device} completions per "
            f"process at {per_device_train_batch_size} per device, which needs {derived}; leave one of them out"
        )
    return BatchPlan(prompts_per_step, num_generations, world_size, per_device_train_batch_size, derived)


def _nearest(wanted: int, valid: list[int], count: int = 3) -> str:
    return ", ".join(str(v) for v in sorted(sorted(valid, key=lambda v: (abs(v - wanted), v))[:count]))
