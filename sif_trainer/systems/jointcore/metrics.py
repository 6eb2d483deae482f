"""What a kept set is worth against the truth, and the means over tasks that the tables print.

Names here and in the published tables: sufficiency_rate = exact_sufficiency, minimum_rate = valid_minimum_set,
savings_rate = active_token_savings (payload, not tokens), evaluations = intervention_count, recall_rate =
critical_recall, exhausted_rate = budget_exhaustion_rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from sif_trainer.systems.jointcore.search import Selection
from sif_trainer.systems.jointcore.tasks import Task


class Score(NamedTuple):
    """One selection against one task's truth.

    `savings` and `recall` are shares in [0, 1]; `cost_gap` is the excess over the oracle's cost, None when the
    set is insufficient.
    """

    kept: int
    cost: float
    evaluations: int
    sufficient: bool
    minimum: bool
    savings: float
    recall: float
    cost_gap: float | None
    exhausted: bool


class Means(NamedTuple):
    """Plain means over tasks; `cost_gap` over the sufficient ones, None when there are none."""

    num_tasks: int
    sufficiency_rate: float
    minimum_rate: float
    savings_rate: float
    evaluations: float
    recall_rate: float
    cost_gap: float | None
    exhausted_rate: float


def score(task: Task, selection: Selection) -> Score:
    """Return what a selection is worth on its task."""
    mask = selection.kept
    cost, full_cost = task.cost(mask), task.full_cost
    sufficient = task.sufficient(mask)
    critical = task.critical
    return Score(
        mask,
        cost,
        selection.evaluations,
        sufficient,
        mask in task.minimum,
        (full_cost - cost) / full_cost,
        (mask & critical).bit_count() / critical.bit_count(),
        (cost - task.oracle_cost) / task.oracle_cost if sufficient else None,
        selection.exhausted,
    )


def means(scores: Sequence[Score]) -> Means:
    """Return the means of at least one score."""
    n = len(scores)
    _, _, evaluations, sufficient, minimum, savings, recall, gaps, exhausted = zip(*scores, strict=True)
    known = [gap for gap in gaps if gap is not None]
    return Means(
        num_tasks=n,
        sufficiency_rate=sum(sufficient) / n,
        minimum_rate=sum(minimum) / n,
        savings_rate=math.fsum(savings) / n,
        evaluations=sum(evaluations) / n,
        recall_rate=math.fsum(recall) / n,
        cost_gap=math.fsum(known) / len(known) if known else None,
        exhausted_rate=sum(exhausted) / n,
    )
