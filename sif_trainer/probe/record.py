"""What is kept of a group, one JSON line each, and the way back to what rules read.

A record is `{"id": ..., "prompt": ..., "responses": [...]}`. A response keeps the numbers that rules read, its ranked
profile under the recipe's windows, its text, and `ranked`: the means of at most `NUM_PIECES` equal parts of its sorted
certainties, from which other windows can be laid (`windows.py`) without keeping a number per token.

Shapes: P groups, G responses per group, K windows.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sif_trainer.feedback.answers import NO_ANSWER
from sif_trainer.feedback.groups import Groups, usable_responses

NUM_PIECES = 128  # a response of fewer tokens is kept exactly
STATISTICS = (  # of trainer.scoring.ResponseStatistics: what is kept of a response beside its profile
    "length", "certainty_mean", "certainty_variance", "certainty_band", "entropy_mean", "log_prob_mean",
    "step_confidence", "gradient_norm", "finite", "truncated",
)  # fmt: skip
_OPTIONAL = {field.name for field in dataclasses.fields(Groups) if field.default is None}


def ranked_pieces(certainty: NDArray[np.float64]) -> list[float]:
    """Sort token certainties from high to low, cut the ranking into min(L, NUM_PIECES) equal parts, and take means.

    A token on a border counts for both parts, by its share. Empty where a certainty is not finite.
    """
    if not np.isfinite(certainty).all():
        return []
    length = certainty.size
    sums = np.concatenate([[0.0], np.cumsum(np.sort(certainty)[::-1])])
    num_pieces = min(length, NUM_PIECES)
    borders = np.arange(num_pieces + 1) * length / num_pieces
    means = np.diff(np.interp(borders, np.arange(length + 1), sums)) * num_pieces / length
    return [round(float(mean), 6) for mean in means]


def to_groups(records: Sequence[Mapping[str, Any]], mask_truncated: bool, seed: int) -> Groups:
    """Arrange records, P of them, as what rules read. A statistic that no response has is None.

    `mask_truncated` makes truncated responses unusable, as the setting `mask_truncated_completions` does.
    """
    columns = {name: column(records, name) for name in (*STATISTICS, "answer", "correct")}
    excluded = columns["truncated"].bool() if mask_truncated else None
    given: dict[str, Any] = {
        name: columns[name] for name in _OPTIONAL & {*STATISTICS} if not columns[name].isnan().all()
    }
    if "answer" in records[0]["responses"][0]:  # else nobody looked for one
        given["answer"] = columns["answer"].nan_to_num(NO_ANSWER).long()
    if not columns["correct"].isnan().all():
        given["verdict"] = columns["correct"]
    return Groups(
        profile=torch.tensor([[_floats(r["profile"]) for r in rec["responses"]] for rec in records]).double(),
        length=columns["length"].long(),
        certainty_mean=columns["certainty_mean"],
        certainty_variance=columns["certainty_variance"],
        usable=usable_responses(columns["finite"].bool(), columns["length"], excluded),
        seed=zlib.crc32(f"{seed}/0".encode()),
        **given,
    )


def column(records: Sequence[Mapping[str, Any]], name: str) -> Tensor:
    """(P, G) float64: a number of every response, NaN where it has none."""
    rows = [_floats([response.get(name) for response in record["responses"]]) for record in records]
    return torch.tensor(rows, dtype=torch.float64)


def _floats(values: Sequence[float | bool | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
