"""The exact stage as one would write it first: sets, one hash at a time, every rule in words.

The oracle of the tests and the yardstick of `benchmarks/jointcore.py`. It shares no code with the package.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import deque
from dataclasses import dataclass
from itertools import combinations, product

FAMILIES = [
    "single_variable",
    "redundant_or",
    "synergy_and",
    "synergy_xor",
    "threshold",
    "multiple_minimal_sets",
    "proxy_confounded",
    "delayed_fsm",
    "harmful_stale",
]
DOMAINS = ["orders", "access_control", "deployment", "calendar", "database", "file_debug"]
METHODS = [
    "full_memory",
    "random_b",
    "semantic_top_b",
    "independent_leave_one_out",
    "conditional_singleton_cost",
    "jointcore_legacy",
    "jointcore_cost_ordered",
    "exact_oracle",
]


def h(*parts):
    joined = "\x1f".join(str(part) for part in parts)
    return int(hashlib.sha256(joined.encode("utf-8")).hexdigest()[:16], 16)


def u(*parts):
    return h(*parts) / (2**64 - 1)


def shuffled(n, *parts):
    order = list(range(n))
    random.Random(h(*parts)).shuffle(order)
    return order


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    id: int
    name: str
    type: str
    value: str
    cost: int
    score: float


@dataclass(frozen=True)
class Task:
    key: str
    inner_id: str
    index: int
    family: str
    n: int
    action_when_sufficient: str
    display_order: tuple
    support: tuple
    records: tuple

    def sufficient(self, kept):
        support = set(self.support)
        if self.family == "redundant_or":
            return bool(support & kept)
        if self.family == "threshold":
            return len(support & kept) >= max(1, (len(support) + 1) // 2)
        if self.family == "multiple_minimal_sets":
            half = len(self.support) // 2
            return set(self.support[:half]) <= kept or set(self.support[half:]) <= kept
        return support <= kept

    def cost(self, kept):
        return sum(record.cost for record in self.records if record.id in kept)

    def minimum_sets(self):
        candidates = [
            set(ids)
            for k in range(len(self.support) + 1)
            for ids in combinations(self.support, k)
            if self.sufficient(set(ids))
        ]
        least = min(self.cost(c) for c in candidates)
        return sorted(sorted(c) for c in candidates if self.cost(c) == least)


def roles(family, size):
    half = size // 2
    if family == "single_variable":
        return [("authorization", "authorization", "ALLOW")]
    if family in ("redundant_or", "threshold"):
        return [(f"approval_{k + 1}", "approval", "ALLOW") for k in range(size)]
    if family == "synergy_xor":
        return [(f"key_flag_{k + 1}", "key_flag", "OFF" if k else "ON") for k in range(size)]
    if family == "multiple_minimal_sets":
        first = [(f"channel_a_{k + 1}", "channel_a", "VALID") for k in range(half)]
        return first + [(f"channel_b_{k + 1}", "channel_b", "VALID") for k in range(size - half)]
    if family == "harmful_stale":
        middle = [(f"support_{k + 1}", "support", "VALID") for k in range(size - 2)]
        current = ("current_authorization", "authorization", "ALLOW")
        return [current, *middle, ("stale_policy", "stale_policy", "BLOCK")]
    values = {"case_id": "MATCH", "current_status": "CONFIRMED", "policy_version": "CURRENT", "approval": "ALLOW"}
    return [(name, name, value) for name, value in list(values.items())[:size]]


def build(domain, family, n, size, horizon, block, base, index):
    key = f"{domain}|{family}|n={n}|s={size}|h={horizon}|b={block}|{base}"
    seed = base + 1009 * block + h(key, "task") % 997
    inner = f"{domain}|{family}|n={n}|s={size}|d={size}|seed={seed}"
    inner_id = digest({"task": inner, "version": 1})
    num_support = 1 if family == "single_variable" else size
    support = tuple(sorted(shuffled(n, inner, "support-order")[:num_support]))
    proxy = min(set(range(n)) - set(support)) if family == "proxy_confounded" else None
    role = dict(zip(support, roles(family, len(support)), strict=True))
    records = []
    for i in range(n):
        if i in support:
            equal = family in ("redundant_or", "multiple_minimal_sets")
            name, kind, value = role[i]
            cost = 3 + (seed % 7 if equal else int(7 * u(inner, "support-cost", i)))
            score = round(0.76 + 0.18 * u(inner, "support-score", i), 8)
        elif i == proxy:
            name, kind, value, cost, score = "historical_priority_proxy", "proxy", "URGENT", 5, 0.995
        else:
            name, kind, value = f"context_note_{i + 1}", "context_note", f"NOTE_{i + 1}"
            cost = 1 + int(12 * u(inner, "distractor-cost", i))
            score = round(0.02 + 0.70 * u(inner, "distractor-score", i), 8)
        records.append(Record(i, name, kind, value, cost, score))
    task_id = digest({"condition": key, "stateful_task_id": inner_id, "version": 1})
    action = "HOLD" if h(key, "orientation") % 2 else "EXECUTE"
    display_order = tuple(shuffled(n, key, "record-order"))
    return Task(task_id, inner_id, index, family, n, action, display_order, support, tuple(records))


def exact_tasks(sizes=(8, 16, 32, 64)):
    cells = product(DOMAINS, FAMILIES, sizes, (2, 4), (1, 4, 8, 16), (0, 1, 2, 3))
    return [build(*cell, 26082701, index) for index, cell in enumerate(cells)]


def group_search(task, order, budget):
    kept, queue, evaluations = set(range(task.n)), deque([tuple(order)]), 0
    while queue and evaluations < budget:
        group = queue.popleft()
        evaluations += 1
        if task.sufficient(kept - set(group)):
            kept = kept - set(group)
        elif len(group) > 1:
            half = len(group) // 2
            queue.append(group[:half])
            queue.append(group[half:])
    return kept, evaluations


def select(task, method, budget=256):
    everything = set(range(task.n))
    top = [r.id for r in sorted(task.records, key=lambda r: (-r.score, r.id))[:4]]
    dearest = [r.id for r in sorted(task.records, key=lambda r: (-r.cost, r.id))]
    by_score = [r.id for r in sorted(task.records, key=lambda r: (r.score, r.id))]
    if method == "full_memory":
        return everything, 0
    if method == "random_b":
        return set(shuffled(task.n, task.key, "random_b")[:4]), 0
    if method == "semantic_top_b":
        return set(top), 0
    if method == "independent_leave_one_out":
        return {i for i in everything if not task.sufficient(everything - {i})}, task.n
    if method == "conditional_singleton_cost":
        kept = everything
        for i in dearest:
            if task.sufficient(kept - {i}):
                kept = kept - {i}
        return kept, task.n
    if method == "jointcore_legacy":
        return group_search(task, by_score, budget)
    if method == "jointcore_cost_ordered":
        order = [i for i in by_score if i not in top] + [i for i in dearest if i in top]
        return group_search(task, order, budget)
    return set(task.minimum_sets()[0]), 0


def run(tasks):
    """One row per task and method, with the metrics of the table beside what a record holds."""
    for task in tasks:
        full, minimum = task.cost(set(range(task.n))), task.minimum_sets()
        oracle, critical = task.cost(set(minimum[0])), set().union(*minimum)
        for method in METHODS:
            kept, evaluations = select(task, method)
            cost, sufficient = task.cost(kept), task.sufficient(kept)
            record = {
                "index": task.index,
                "method": method,
                "retained": sorted(kept),
                "cost": cost,
                "evaluations": evaluations,
                "sufficient": sufficient,
                "minimum": sorted(kept) in minimum,
            }
            extra = {
                "savings": (full - cost) / full,
                "critical_recall": len(kept & critical) / len(critical),
                "cost_gap": (cost - oracle) / oracle if sufficient else None,
            }
            yield record, extra


def stage(records):
    """The whole stage: tasks, selections, one appended record each, and every mean per scope and method."""
    tasks = exact_tasks()
    values = {}
    for record, extra in run(tasks):
        records.append(record)
        task = tasks[record["index"]]
        for scope in ("overall", task.n, task.family):
            for name, value in {**record, **extra}.items():
                if isinstance(value, (bool, int, float)):
                    values.setdefault((scope, record["method"], name), []).append(value)
    return {key: sum(numbers) / len(numbers) for key, numbers in values.items()}
