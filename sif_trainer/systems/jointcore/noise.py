"""What a judge that errs does to the searches: sufficiency at equal budgets, asking once or asking until sure.

    sif jointcore noise 'flip_rates=[0.05, 0.1, 0.2]' 'budgets=[16, 32, 64]'

Each answer is flipped with probability `flip_rate`, independently at each asking, so that asking again helps. (A
cached or greedy model errs the same way every time; vary what does not matter, such as the order of the records.)
`sure` turns any search into one that repeats each question until the odds are settled: Wald's sequential test, which
from even prior odds is the Bayesian rule "stop when the posterior of one answer reaches 1 - error_rate".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sif_trainer.runs.errors import nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.jointcore.hashing import unit
from sif_trainer.systems.jointcore.metrics import means, score
from sif_trainer.systems.jointcore.search import Kept, Search, drive
from sif_trainer.systems.jointcore.selectors import SELECTORS
from sif_trainer.systems.jointcore.tasks import Task, model_tasks


def noisy(task: Task, flip_rate: float, seed: int = 0) -> Callable[[int], bool]:
    """Return the task's oracle with flipped answers: the same flips for the same seed and sequence of questions."""
    num_asked: dict[int, int] = {}

    def unchanged(kept: int) -> bool:
        times = num_asked[kept] = num_asked.get(kept, 0) + 1
        return task.sufficient(kept) != (unit("noise", seed, task.key, kept, times) < flip_rate)

    return unchanged


def margin(flip_rate: float, error_rate: float) -> int:
    """Return by how many answers one side must lead for an error of at most `error_rate`; 1 without flips."""
    if flip_rate == 0:
        return 1
    return max(1, math.ceil(math.log((1 - error_rate) / error_rate) / math.log((1 - flip_rate) / flip_rate)))


def sure(search: Search, full: int, flip_rate: float, error_rate: float, budget: int) -> Search:
    """Repeat each question of a search until its answer is wrong with probability `error_rate` at most.

    When the budget ends, what the last settled yes left is kept, or `full`, the mask of all records.
    """
    lead_wanted = margin(flip_rate, error_rate)
    settled = full
    try:
        candidate = next(search)
        while True:
            lead = 0
            while abs(lead) < lead_wanted:
                if not budget:
                    return Kept(settled, exhausted=True)
                budget -= 1
                lead += 1 if (yield candidate) else -1
            if lead > 0:
                settled = candidate
            candidate = search.send(lead > 0)
    except StopIteration as stop:
        kept: Kept = stop.value
        return kept


@dataclass(frozen=True)
class NoiseConfig:
    """The cells of the study: every flip rate by every budget by every method, asked once and asked until sure."""

    flip_rates: tuple[float, ...] = field(
        default=(0.05, 0.1, 0.2), metadata={"help": "probability that one answer is wrong; from 0 to below 0.5"}
    )
    budgets: tuple[int, ...] = field(
        default=(16, 32, 64), metadata={"help": "questions per task, repetitions included"}
    )
    methods: tuple[str, ...] = field(
        default=("conditional_singleton_cost", "jointcore_cost_ordered", "top_b_first", "galloping"),
        metadata={"help": "selectors by name"},
    )
    error_rate: float = field(default=0.01, metadata={"help": "error that asking until sure allows per question"})
    seed: int = field(default=0, metadata={"help": "seed of the flips"})

    def __post_init__(self) -> None:
        for rate in self.flip_rates:
            if not 0 <= rate < 0.5:
                raise ValueError(f"flip_rates: {rate} is not in [0, 0.5); at 0.5 an answer says nothing")
        if not 0 < self.error_rate < 0.5:
            raise ValueError(f"error_rate is {self.error_rate}; it must be between 0 and 0.5")
        if not self.budgets or min(self.budgets) < 1:
            raise ValueError("budgets must hold numbers of at least 1")
        for method in self.methods:
            if method not in SELECTORS:
                raise ValueError(f"methods: no selector '{method}'{nearest(method, SELECTORS)}")


def study(tasks: Sequence[Task], config: NoiseConfig) -> list[dict[str, Any]]:
    """Return one row per cell: flip_rate, budget, method, asking (`once` or `until sure`), means over the tasks."""
    rows = []
    for flip_rate in config.flip_rates:
        for budget in config.budgets:
            for method in config.methods:
                for asking in ("once", "until sure"):
                    scores = []
                    for task in tasks:
                        search = SELECTORS[method](task, budget)
                        if asking == "until sure":
                            search = sure(search, task.full, flip_rate, config.error_rate, budget)
                        scores.append(score(task, drive(search, noisy(task, flip_rate, config.seed))))
                    cell = {"flip_rate": flip_rate, "budget": budget, "method": method, "asking": asking}
                    rows.append(cell | means(scores)._asdict())
    return rows


def run_noise(run: RunFolder, config: NoiseConfig) -> list[dict[str, Any]]:
    """Run the study on the 432 tasks of the model stage, or return what the folder holds; a few seconds in all."""
    if not run.finished:
        run.finish({"rows": study(list(model_tasks()), config), "config": asdict(config)})
    rows: list[dict[str, Any]] = run.summary["rows"]
    return rows


def format_rows(rows: Sequence[dict[str, Any]]) -> str:
    """Return the study as a table of text."""
    lines = [
        f"{'flip':>5}{'budget':>8}  {'method':<28}{'asking':<12}{'sufficient':>11}{'minimum':>9}{'questions':>11}"
    ]
    for row in rows:
        cell = f"{row['flip_rate']:>5.2f}{row['budget']:>8}  {row['method']:<28}{row['asking']:<12}"
        lines.append(f"{cell}{row['sufficiency_rate']:>11.3f}{row['minimum_rate']:>9.3f}{row['evaluations']:>11.2f}")
    return "\n".join(lines)
