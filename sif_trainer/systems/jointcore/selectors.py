"""All selectors by name: the eight published ones in the order of the paper's table, then ours."""

from __future__ import annotations

from sif_trainer.systems.jointcore import published, stronger
from sif_trainer.systems.jointcore.search import Selector

PUBLISHED = (
    "full_memory",
    "random_b",
    "semantic_top_b",
    "independent_leave_one_out",
    "conditional_singleton_cost",
    "jointcore_legacy",
    "jointcore_cost_ordered",
    "exact_oracle",
)

SELECTORS: dict[str, Selector] = {
    **{name: getattr(published, name) for name in PUBLISHED},
    "top_b_first": stronger.top_b_first,
    "galloping": stronger.galloping,
}
