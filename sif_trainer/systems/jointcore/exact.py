"""The exact stage: every selector on every task with the oracle as judge, one record per task and method, and Table 1.

    sif jointcore exact --run runs/jointcore-exact

In process: `scored = list(evaluate(exact_tasks(), SELECTORS))`, then `table(scored)`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sif_trainer.runs.errors import nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import write_atomically
from sif_trainer.systems.jointcore.memory import ids_of
from sif_trainer.systems.jointcore.metrics import Means, Score, means, score
from sif_trainer.systems.jointcore.search import Selector, drive
from sif_trainer.systems.jointcore.selectors import PUBLISHED, SELECTORS
from sif_trainer.systems.jointcore.tasks import EXACT_BUDGET, EXACT_SIZES, SUPPORT_SIZES, Task, exact_tasks

# Numbers, ids and names need no escaping, and json.dumps would take a fifth of the stage's time.
LINE = '{"index": %d, "method": "%s", "retained": %s, "cost": %s, "evaluations": %d, "sufficient": %s, "minimum": %s}'
JSON = ("false", "true")


@dataclass(frozen=True)
class ExactConfig:
    """What an exact run may change; the defaults are the published stage."""

    sizes: tuple[int, ...] = field(
        default=EXACT_SIZES, metadata={"help": "records per memory; any size of at least 8. Paper: 8, 16, 32, 64"}
    )
    methods: tuple[str, ...] = field(
        default=PUBLISHED, metadata={"help": "selectors by name, in the order of the table. Paper: all eight"}
    )
    budget: int = field(default=EXACT_BUDGET, metadata={"help": "questions that a search may ask. Paper: 256"})

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 2 * max(SUPPORT_SIZES):
            raise ValueError(f"sizes must hold numbers of at least {2 * max(SUPPORT_SIZES)}, not {list(self.sizes)}")
        if self.budget < 1:
            raise ValueError(f"budget must be at least 1, not {self.budget}")
        for method in self.methods:
            if method not in SELECTORS:
                raise ValueError(
                    f"methods: no selector '{method}'{nearest(method, SELECTORS)}; known: {', '.join(SELECTORS)}"
                )
        if not self.methods:
            raise ValueError(f"methods is empty; name some of {', '.join(SELECTORS)}")


class Scored(NamedTuple):
    """One task with the score of each method on it."""

    task: Task
    scores: dict[str, Score]


def evaluate(tasks: Iterable[Task], selectors: Mapping[str, Selector], budget: int = EXACT_BUDGET) -> Iterator[Scored]:
    """Run every selector on every task, judged by the task's own truth."""
    for task in tasks:
        scores = {
            name: score(task, drive(select(task, budget), task.sufficient)) for name, select in selectors.items()
        }
        yield Scored(task, scores)


def lines(scored: Scored) -> Iterator[str]:
    """Yield what the run folder keeps of one task: one JSON line per method."""
    for method, s in scored.scores.items():
        yield LINE % (
            scored.task.index, method, ids_of(s.kept), s.cost, s.evaluations, JSON[s.sufficient], JSON[s.minimum]
        )  # fmt: skip


def table(scored: Iterable[Scored]) -> dict[str, dict[str, Means]]:
    """Return {scope: {method: means}} for the scopes `overall`, then `n=8`, …, then each family, in the order met."""
    overall = list(scored)
    by_size: dict[str, list[Scored]] = {}
    by_family: dict[str, list[Scored]] = {}
    for one in overall:
        by_size.setdefault(f"n={one.task.n}", []).append(one)
        by_family.setdefault(one.task.family, []).append(one)
    scopes = {"overall": overall, **by_size, **by_family}
    return {
        scope: {method: means([one.scores[method] for one in members]) for method in members[0].scores}
        for scope, members in scopes.items()
    }


def run_exact(run: RunFolder, config: ExactConfig) -> dict[str, Any]:
    """Run the stage, write records and summary, and return the summary: {scope: {method: {metric: mean}}}.

    The whole stage takes two seconds, so its records are written in one step and an interrupted run starts anew.
    """
    if not run.finished:
        gc.disable()  # nothing here makes cycles, and the collector would walk all tasks again and again
        try:
            selectors = {name: SELECTORS[name] for name in config.methods}
            scored = list(evaluate(exact_tasks(config.sizes), selectors, config.budget))
            text = "\n".join(line for one in scored for line in lines(one)) + "\n"
            write_atomically(run.path / "records.jsonl", text)
            means_of = table(scored)
        finally:
            gc.enable()
        run.finish({scope: {m: row._asdict() for m, row in rows.items()} for scope, rows in means_of.items()})
    return run.summary


def format_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return one scope of a summary as text, with the digits that the paper prints (Table 1)."""
    lines = [f"{'method':<28}{'sufficient':>12}{'minimum':>10}{'savings':>10}{'evaluations':>13}"]
    for method, row in rows.items():
        rates = f"{row['sufficiency_rate']:>12.4f}{row['minimum_rate']:>10.4f}{row['savings_rate']:>10.4f}"
        lines.append(f"{method:<28}{rates}{row['evaluations']:>13.2f}")
    return "\n".join(lines)
