"""The benchmark's decisions: nine families of rules over a memory, built from a condition and a base seed alone.

    from sif_trainer.systems.jointcore.tasks import exact_tasks, model_tasks
    task = next(exact_tasks())         # 6,912 in all; model_tasks() gives 432, robustness_tasks() 108 of them

Bit-identical to the published benchmark, which the digests of its ids, records and selections prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from sif_trainer.systems.jointcore.hashing import canonical_digest, hash64, shuffled, units
from sif_trainer.systems.jointcore.memory import Memory
from sif_trainer.systems.jointcore.oracle import cheapest, minimal_sets

FAMILIES = (
    "single_variable",
    "redundant_or",
    "synergy_and",
    "synergy_xor",
    "threshold",
    "multiple_minimal_sets",
    "proxy_confounded",
    "delayed_fsm",
    "harmful_stale",
)
DOMAINS = ("orders", "access_control", "deployment", "calendar", "database", "file_debug")
SUPPORT_SIZES = (2, 4)
HORIZONS = (1, 4, 8, 16)
BLOCKS = (0, 1, 2, 3)
EXACT_SIZES = (8, 16, 32, 64)
EXACT_SEED = 26082701
MODEL_SEED = 26082901
TOP_B = 4
EXACT_BUDGET = 256
MODEL_BUDGET = 64

EQUAL_COST_FAMILIES = ("redundant_or", "multiple_minimal_sets")
CASE_FIELDS = (
    ("case_id", "MATCH"),
    ("current_status", "CONFIRMED"),
    ("policy_version", "CURRENT"),
    ("approval", "ALLOW"),
)


class Record(NamedTuple):
    """One record of a memory. `cost` is an integer from 1 to 12, `score` a relevance in [0, 1]."""

    id: int
    name: str
    type: str
    value: str
    cost: int
    score: float


class Condition(NamedTuple):
    """One cell of a grid."""

    domain: str
    family: str
    n: int
    support_size: int
    horizon: int
    block: int


@dataclass(frozen=True)
class Task(Memory):
    """A memory with its truth. `key` is the published task id; `minimal` and `minimum` hold masks."""

    index: int
    condition: Condition
    condition_key: str
    inner_id: str
    seed: int
    support: tuple[int, ...]
    proxy: int | None
    minimal: tuple[int, ...]
    minimum: tuple[int, ...]

    @property
    def family(self) -> str:
        """The family of its rule."""
        return self.condition.family

    def sufficient(self, kept: int) -> bool:
        """Return whether the kept records decide as the full memory does."""
        for needed in self.minimal:  # noqa: SIM110 (the innermost call of the exact stage; any() takes twice as long)
            if kept & needed == needed:
                return True
        return False

    @cached_property
    def full_cost(self) -> float:
        """The cost of keeping everything."""
        return sum(self.costs)

    @cached_property
    def oracle_cost(self) -> float:
        """The least cost of a sufficient set."""
        return self.cost(self.minimum[0])

    @cached_property
    def critical(self) -> int:
        """The union of the minimum-cost sets."""
        union = 0
        for mask in self.minimum:
            union |= mask
        return union

    @cached_property
    def action_when_sufficient(self) -> str:
        """EXECUTE or HOLD, balanced by hash."""
        return "HOLD" if hash64(self.condition_key, "orientation") % 2 else "EXECUTE"

    @property
    def action_when_insufficient(self) -> str:
        """The other action."""
        return "EXECUTE" if self.action_when_sufficient == "HOLD" else "HOLD"

    def right_action(self, kept: int) -> str:
        """Return the oracle's action for a kept set."""
        return self.action_when_sufficient if self.sufficient(kept) else self.action_when_insufficient

    @cached_property
    def display_order(self) -> list[int]:
        """The ids in the order in which a prompt lists them."""
        return shuffled(self.n, self.condition_key, "record-order")

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records in id order."""
        roles = dict(zip(self.support, support_roles(self.family, len(self.support)), strict=True))
        if self.proxy is not None:
            roles[self.proxy] = ("historical_priority_proxy", "proxy", "URGENT")
        notes = ((f"context_note_{i + 1}", "context_note", f"NOTE_{i + 1}") for i in range(self.n))
        return tuple(
            Record(i, *roles.get(i, note), int(self.costs[i]), self.scores[i]) for i, note in enumerate(notes)
        )


def support_roles(family: str, size: int) -> list[tuple[str, str, str]]:
    """Return (name, type, value) of a family's `size` support records, in ascending order of their ids."""
    half = size // 2
    if family == "single_variable":
        return [("authorization", "authorization", "ALLOW")]
    if family in ("redundant_or", "threshold"):
        return [(f"approval_{k}", "approval", "ALLOW") for k in range(1, size + 1)]
    if family == "synergy_xor":
        return [(f"key_flag_{k}", "key_flag", "ON" if k == 1 else "OFF") for k in range(1, size + 1)]
    if family == "multiple_minimal_sets":
        sides = [("a", k) for k in range(1, half + 1)] + [("b", k) for k in range(1, size - half + 1)]
        return [(f"channel_{side}_{k}", f"channel_{side}", "VALID") for side, k in sides]
    if family == "harmful_stale":
        supports = [(f"support_{k}", "support", "VALID") for k in range(1, size - 1)]
        current = ("current_authorization", "authorization", "ALLOW")
        return [current, *supports, ("stale_policy", "stale_policy", "BLOCK")]
    return [(name, name, value) for name, value in CASE_FIELDS[:size]]


def build_task(condition: Condition, base_seed: int, index: int) -> Task:
    """Return the task of one cell; `index` is its place in its grid."""
    domain, family, n, size, horizon, block = condition
    key = f"{domain}|{family}|n={n}|s={size}|h={horizon}|b={block}|{base_seed}"
    seed = base_seed + 1009 * block + hash64(key, "task") % 997
    inner_key = f"{domain}|{family}|n={n}|s={size}|d={size}|seed={seed}"
    inner_id = canonical_digest({"task": inner_key, "version": 1})

    num_support = 1 if family == "single_variable" else size
    order = shuffled(n, inner_key, "support-order")
    support, distractors = sorted(order[:num_support]), order[num_support:]
    costs, scores = [0] * n, [0.0] * n
    for i, cost in zip(distractors, units(inner_key, "distractor-cost", distractors), strict=True):
        costs[i] = 1 + int(12 * cost)
    for i, score in zip(distractors, units(inner_key, "distractor-score", distractors), strict=True):
        scores[i] = round(0.02 + 0.70 * score, 8)
    for i, cost in zip(support, units(inner_key, "support-cost", support), strict=True):
        costs[i] = 3 + (seed % 7 if family in EQUAL_COST_FAMILIES else int(7 * cost))
    for i, score in zip(support, units(inner_key, "support-score", support), strict=True):
        scores[i] = round(0.76 + 0.18 * score, 8)
    proxy = min(distractors) if family == "proxy_confounded" else None
    if proxy is not None:
        costs[proxy], scores[proxy] = 5, 0.995

    minimal = minimal_sets(family, support)
    return Task(
        key=canonical_digest({"condition": key, "stateful_task_id": inner_id, "version": 1}),
        costs=tuple(costs),
        scores=tuple(scores),
        index=index,
        condition=condition,
        condition_key=key,
        inner_id=inner_id,
        seed=seed,
        support=tuple(support),
        proxy=proxy,
        minimal=minimal,
        minimum=cheapest(minimal, costs),
    )


def exact_tasks(sizes: tuple[int, ...] = EXACT_SIZES) -> Iterator[Task]:
    """Yield the exact stage's tasks in order: 6,912 with the published memory sizes."""
    grid = product(DOMAINS, FAMILIES, sizes, SUPPORT_SIZES, HORIZONS, BLOCKS)
    for index, cell in enumerate(grid):
        yield build_task(Condition(*cell), EXACT_SEED, index)


def model_tasks() -> Iterator[Task]:
    """Yield the model stage's 432 tasks in order: 16 records each, the horizon tied to the block."""
    grid = product(FAMILIES, DOMAINS, SUPPORT_SIZES, BLOCKS)
    for index, (family, domain, size, block) in enumerate(grid):
        yield build_task(Condition(domain, family, 16, size, HORIZONS[block], block), MODEL_SEED, index)


def robustness_tasks() -> Iterator[Task]:
    """Yield the 108 robustness tasks: every fourth of the model stage, so one per family, domain and support size."""
    return (task for task in model_tasks() if task.index % 4 == 0)
