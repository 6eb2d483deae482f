"""When is a set of records sufficient? Every family's rule is monotone, so its minimal sets say it all.

`minimal_sets` is the closed form: a set is sufficient iff it contains one of them. `exhaustive_minimum` is its
check: it states each family's rule in its own words and tries every subset of all n records (n at most 16).

The paper describes the enumeration; the published code has a closed form too. XOR flags are never evaluated: the whole
support must be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sif_trainer.systems.jointcore.memory import ids_of, mask_of

MAX_EXHAUSTIVE = 16


def quorum(num_support: int) -> int:
    """Return how many support records the threshold family asks for."""
    return max(1, (num_support + 1) // 2)


def minimal_sets(family: str, support: Sequence[int]) -> tuple[int, ...]:
    """Return the masks of all minimal sufficient sets, given the family's support ids in ascending order."""
    half = len(support) // 2
    if family == "redundant_or":
        return tuple(1 << i for i in support)
    if family == "threshold":
        return tuple(map(mask_of, combinations(support, quorum(len(support)))))
    if family == "multiple_minimal_sets":
        return mask_of(support[:half]), mask_of(support[half:])
    return (mask_of(support),)


def cheapest(sets: Sequence[int], costs: Sequence[float]) -> tuple[int, ...]:
    """Return the masks of least summed cost, in lexicographic order of their ids."""
    if len(sets) == 1:
        return tuple(sets)
    named = sorted((sum(costs[i] for i in ids), ids, mask) for mask in sets for ids in [ids_of(mask)])
    return tuple(mask for cost, _, mask in named if cost == named[0][0])


def exhaustive_minimum(family: str, support: Sequence[int], costs: Sequence[int]) -> tuple[int, ...]:
    """Return what `cheapest(minimal_sets(...))` must equal, from all 2^n subsets. ValueError when n is over 16."""
    n = len(costs)
    if n > MAX_EXHAUSTIVE:
        raise ValueError(
            f"{n} records have 2^{n} subsets; the exhaustive oracle takes at most {MAX_EXHAUSTIVE} records"
        )
    subsets = np.arange(1 << n)
    kept = [(subsets >> i & 1).astype(bool) for i in range(n)]
    sufficient = subsets[_holds(family, [kept[i] for i in support])]
    cost = sum(np.where(kept[i], costs[i], 0) for i in range(n))[sufficient]  # type: ignore[index]
    return tuple(sorted(sufficient[cost == cost.min()].tolist(), key=ids_of))


def _holds(family: str, kept: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """Return, for every subset, whether the family's rule holds; `kept[j]` tells which hold support record j."""
    count = np.sum(kept, axis=0)
    half = len(kept) // 2
    if family == "redundant_or":
        return np.asarray(count > 0)
    if family == "threshold":
        return np.asarray(count >= quorum(len(kept)))
    if family == "multiple_minimal_sets":
        return np.asarray(np.all(kept[:half], axis=0) | np.all(kept[half:], axis=0))
    return np.asarray(count == len(kept))
