"""Reasoning steps of a response and their confidence, for SCOPE: a step ends where a blank line begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def step_confidence(
    confidence: Tensor, mask: Tensor, completion_ids: Sequence[Sequence[int]], tokenizer: Any
) -> Tensor:
    """(B,) float64: the mean over a response's steps of the mean confidence of the step's valid tokens (spec 4.4).

    `confidence` and `mask` are (B, T). A step ends with the token that brings the second of two newlines.
    """
    distinct = sorted({i for ids in completion_ids for i in ids})
    pieces = dict(zip(distinct, tokenizer.batch_decode([[i] for i in distinct]), strict=True))
    means = []
    for row, ids in enumerate(completion_ids):
        values = confidence[row, : len(ids)].double()
        valid = mask[row, : len(ids)]
        step = torch.tensor(step_numbers([pieces[i] for i in ids]), device=values.device)
        sums = torch.zeros(len(ids) + 1, dtype=torch.float64, device=values.device)
        totals = sums.index_add(0, step, values * valid)
        counts = sums.index_add(0, step, valid.double())
        means.append((totals / counts)[counts > 0].mean())
    return torch.stack(means)


def step_numbers(pieces: Sequence[str]) -> list[int]:
    """The number of the step that each piece of text lies in."""
    numbers, number, tail = [], 0, ""
    for piece in pieces:
        numbers.append(number)
        tail += piece
        if "\n\n" in tail:
            number, tail = number + 1, ""
        tail = tail[-1:]
    return numbers
