"""Windows for the lengths that were observed: a suggestion of w, s and K, and what their vote would have kept.

    suggested = suggest(config, lengths)
    groups = relaid(records, groups, suggested)         # the same samples under other windows

The paper's windows need 550 tokens. Where answers are shorter nobody is eligible, and a policy learns nothing. Here
L_min = w + s (K - 1) becomes the length that nine of ten responses reach, with windows that overlap by half, as the
paper's do in a response of L_min tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sif_trainer.certainty.profile import window_starts
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.settings import FeedbackSettings

ELIGIBLE_SHARE = 0.9  # of responses that should be long enough
_LEAST_WINDOW = 2  # tokens: a window of one is a single certainty


def suggest(settings: FeedbackSettings, lengths: Tensor) -> FeedbackSettings | None:
    """Return the settings with `sif` and windows for these lengths, any shape, or None where no window can be laid.

    K stays the recipe's unless the responses are too short for that many; tau_w keeps its share of K.
    """
    if not lengths.numel():
        return None
    wanted = int(torch.quantile(lengths.double().flatten(), 1 - ELIGIBLE_SHARE, interpolation="lower"))
    if wanted < _LEAST_WINDOW:
        return None
    num_windows = min(settings.num_windows, wanted - _LEAST_WINDOW + 1)
    window_size = max(2 * wanted // (num_windows + 1), _LEAST_WINDOW)
    min_stride = (wanted - window_size) // (num_windows - 1) if num_windows > 1 else 0
    wins = max(1, math.ceil(settings.window_wins / settings.num_windows * num_windows))
    return dataclasses.replace(
        settings,
        feedback="sif",
        num_trained=None,
        num_windows=num_windows,
        window_size=window_size,
        min_stride=min_stride,
        window_wins=wins,
    )


def relaid(records: Sequence[Mapping[str, Any]], groups: Groups, settings: FeedbackSettings) -> Groups:
    """Return the groups with profiles under other windows, from what records keep of the ranking.

    Exact for responses of at most `record.NUM_PIECES` tokens; for longer ones certainty counts as constant within a
    piece of the ranking.
    """
    num_windows, window_size = settings.num_windows, settings.window_size
    profiles = [
        [
            window_means(np.asarray(response["ranked"]), int(response["length"]), num_windows, window_size)
            for response in record["responses"]
        ]
        for record in records
    ]
    return dataclasses.replace(groups, profile=torch.tensor(np.asarray(profiles), dtype=torch.float64))


def window_means(pieces: NDArray[np.float64], length: int, num_windows: int, window_size: int) -> NDArray[np.float64]:
    """(K,) means of windows over a ranking that is constant within each of its equal pieces; NaN if too short."""
    if length < window_size or not pieces.size:
        return np.full(num_windows, np.nan)
    starts = window_starts(torch.tensor([length]), num_windows, window_size)[0].numpy()
    sums = np.concatenate([[0.0], np.cumsum(pieces)]) * length / pieces.size
    places = np.linspace(0, length, pieces.size + 1)
    ends = np.interp([starts, starts + window_size], places, sums)
    return np.asarray((ends[1] - ends[0]) / window_size)
