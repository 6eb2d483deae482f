"""Student's interval of a mean, for seeds of an arm or steps of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> dict[str, float]:
    """Return `mean`, `low`, `high` and `num` of values that are drawn independently; NaN limits for a single one."""
    x = np.asarray(values, dtype=np.float64)
    half = math.nan
    if x.size > 1:
        half = float(stdtrit(x.size - 1, (1 + CONFIDENCE) / 2) * x.std(ddof=1) / math.sqrt(x.size))
    return {"mean": float(x.mean()), "low": float(x.mean()) - half, "high": float(x.mean()) + half, "num": x.size}
