"""The update mask: who takes part in the loss, in its policy term and in its KL term alike.

TRL multiplies every loss term by `completion_mask * tool_mask` but attends by `completion_mask` alone, so the mask is
written into `tool_mask`: a dropped response has a gradient of exactly zero and the others see nothing of it.
Tests: tests/trainer/test_update_mask.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def apply_update_mask(
    batch: dict[str, Any],
    keep: Tensor,
    num_rows: int,
    num_kept: int,
    loss_type: str,
    normalize_by: str,
    sum_over_processes: Callable[[Tensor], Tensor],
) -> None:
    """Write the mask, its denominator and the loss scale into TRL's batch, in place.

    Args:
        batch: what `_generate_and_score_completions` returned; B local completions of T tokens.
        keep: (B,) bool.
        num_rows: completions of the optimizer step over all processes.
        num_kept: how many of them are kept.
        loss_type: 'grpo' and 'dr_grpo' average over rows, so that a scale of num_rows / num_kept turns "all" into
            "kept"; 'dapo' divides by a token count, which is counted again behind the mask.
        normalize_by: 'kept' or 'all'.
        sum_over_processes: adds a scalar tensor over all processes; called on every process or on none.
    """
    mask = batch["completion_mask"]
    loss_mask = batch.get("tool_mask", torch.ones_like(mask)) * keep.to(mask).unsqueeze(1)
    batch["tool_mask"] = loss_mask
    scale = 1.0
    if normalize_by == "kept":
        if loss_type == "dapo":
            batch["num_items_in_batch"] = sum_over_processes((mask * loss_mask).sum())
        else:
            scale = num_rows / max(num_kept, 1)
    # 0-dim: TRL copies such tensors to every micro-batch unchanged, and shuffles only what has a row dimension.
    batch["loss_scale"] = torch.tensor(scale, device=mask.device)


def replace_rows(batch: dict[str, Any], bad: Tensor) -> None:
    """Overwrite rows whose logits are not finite by a copy of a finite row, in place.

    Masking is not enough for them: 0 * NaN is NaN, in the loss and in every gradient behind it. The copy takes part in
    the forward pass only, because the rows must be masked.

    Raises:
        ValueError: when no row of this process is finite, so that there is nothing to put in their place.
    """
    if not bad.any():
        return
    if bad.all():
        raise ValueError(
            "every response of this process has logits that are not finite: the model itself has broken down; go back "
            "to an earlier checkpoint and lower learning_rate, or train in bf16 or fp32 instead of fp16"
        )
    donor = int((~bad).nonzero()[0])
    for value in batch.values():
        if torch.is_tensor(value) and value.dim() > 0 and value.size(0) == bad.numel():
            value[bad] = value[donor].clone()
