"""Record a pool for replay: so many samples of each problem, each scored and verified.

    sif adap record adap/cipher num_samples=64          # pool.npz and pool.jsonl in the run folder

`trace.jsonl` is written as the samples come, and a run that was killed goes on from it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.progress import Progress
from sif_trainer.systems.adap.journal import Journal
from sif_trainer.systems.adap.parts import Problem
from sif_trainer.systems.adap.pools import Recorded, write_pool
from sif_trainer.systems.adap.recipe import Parts, RecordRecipe


def run_record(run: RunFolder, recipe: RecordRecipe) -> dict[str, Any]:
    """Draw, score and verify `num_samples` of each problem, write the pool and return the summary.

    A sample whose verification ended in an error is left out of the pool, and counted.

    Raises:
        UserError: no verification came to a verdict.
    """
    if run.finished:
        return run.summary
    problems = recipe.load_problems()
    parts = recipe.open_parts(run)
    journal = Journal(run.records("trace"))
    with Progress("record", len(problems), "problem") as progress, ThreadPoolExecutor(recipe.num_workers) as threads:
        recorded = []
        for problem in problems:
            recorded.append(_record(problem, parts, journal, recipe.num_samples, threads))
            progress.update()
    pool = [problem for problem in recorded if len(problem.labels)]
    if not pool:
        raise UserError(
            f"every verification ended in an error, so that there is no pool; {run.path}/trace.jsonl says why"
        )
    write_pool(pool, run.path / "pool.npz")
    write_pool(pool, run.path / "pool.jsonl")
    run.finish(
        {
            "num_problems": len(pool),
            "num_solvable": sum(bool(problem.labels.any()) for problem in pool),
            "num_samples": sum(len(problem.labels) for problem in pool),
            "num_errors": journal.num_draws - sum(len(problem.labels) for problem in pool),
            "pass_rate": float(np.mean([problem.pass_rate for problem in pool])),
        }
    )
    return run.summary


def _record(
    problem: Problem, parts: Parts, journal: Journal, num_samples: int, threads: ThreadPoolExecutor
) -> Recorded:
    sampler, scorer, verifier = parts
    drawn = journal.draw(problem, sampler, num_samples, 0)
    scores, _ = journal.score(problem, scorer, drawn)
    never = Event()
    verdicts = list(threads.map(lambda candidate: journal.verify(problem, verifier, candidate, never), drawn))
    kept = [(s, v) for s, v in zip(scores, verdicts, strict=True) if v.outcome != "error"]
    rewards = np.array([np.nan if score is None else score for score, _ in kept], dtype=float)
    return Recorded(problem.id, rewards, np.array([verdict.passed for _, verdict in kept], dtype=bool))
