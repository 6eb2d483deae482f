"""Ranked profiles: a response's certainties, sorted and averaged in K windows from the highest to the lowest.

    pytest tests/certainty/test_profile.py

Window means are taken from the windows themselves, in fp64, and not as differences of prefix sums. The order of the
additions then depends on the window size alone, so two windows that hold the same values have the same mean to the
last bit (a vote is strict: a rounding error would be a vote), and a profile never rises from one window to the next.
"""

from __future__ import annotations

import torch
from torch import Tensor


def min_length(num_windows: int, window_size: int, min_stride: int) -> int:
    """Fewest valid tokens of an eligible response: L_min = w + s (K - 1) (section 1.2).

    Raises ValueError when the windows cannot be laid.
    """
    if num_windows < 1 or window_size < 1 or min_stride < 0:
        raise ValueError(
            f"num_windows={num_windows} and window_size={window_size} must be at least 1, "
            f"and min_stride={min_stride} at least 0"
        )
    return window_size + min_stride * (num_windows - 1)


def window_starts(lengths: Tensor, num_windows: int, window_size: int) -> Tensor:
    """0-based start of each window in the sorted list: floor(k (L - w) / (K - 1)), k = 0..K-1 (section 1.3).

    (B,) int64 -> (B, K) int64, in integers throughout: a float quotient gives wrong floors. K = 1 gives 0, and so does
    a response that is shorter than one window.
    """
    spare = (lengths - window_size).clamp(min=0).unsqueeze(-1)
    return torch.arange(num_windows, device=lengths.device) * spare // max(num_windows - 1, 1)


def ranked_profile(certainty: Tensor, mask: Tensor, num_windows: int, window_size: int) -> Tensor:
    """Mean certainty of each window of the sorted valid tokens, never rising from left to right (section 1.3).

    (B, T) certainties and (B, T) bool, True where a token is valid, anywhere in the row -> (B, K) float64. A row is
    NaN if it has fewer valid tokens than a window, or a valid certainty that is not finite. Eligibility is the
    caller's. Raises ValueError when num_windows or window_size is below 1.
    """
    min_length(num_windows, window_size, min_stride=0)  # refuses what is no window
    num_rows, num_tokens = certainty.shape
    if num_tokens < window_size:
        return certainty.new_full((num_rows, num_windows), torch.nan, dtype=torch.float64)
    ranked = _descending(certainty.masked_fill(~mask, -torch.inf))
    lengths = mask.sum(-1)
    rows = torch.arange(num_rows, device=certainty.device).unsqueeze(-1)
    windows = ranked.unfold(-1, window_size, 1)[rows, window_starts(lengths, num_windows, window_size)]
    unusable = (lengths < window_size) | (mask & ~certainty.isfinite()).any(-1)
    return windows.double().mean(-1).masked_fill(unusable.unsqueeze(-1), torch.nan)


def band_mean(certainty: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Mean of each row's sorted valid certainties between two quantiles of the ranking, highest first (section 2).

    (B, T) and (B, T) bool -> (B,) float64: ranks floor(low L) up to ceil(high L), at least one; NaN for an empty row.
    """
    lengths = mask.sum(-1, keepdim=True)
    ranked = _descending(certainty.double().masked_fill(~mask, -torch.inf))
    rank = torch.arange(certainty.size(1), device=certainty.device)
    first = (low * lengths).floor().clamp(max=lengths - 1)
    last = torch.maximum((high * lengths).ceil(), first + 1)
    inside = (rank >= first) & (rank < last) & (rank < lengths)
    return ranked.masked_fill(~inside, 0.0).sum(-1) / inside.sum(-1)


def _descending(values: Tensor) -> Tensor:
    """Sort each row from high to low; on a CPU by numpy, whose sort is several times as fast as torch's."""
    if values.device.type != "cpu":
        return values.sort(dim=-1, descending=True).values
    ascending = (-values).numpy()
    ascending.sort(axis=-1)
    return -torch.from_numpy(ascending)
