"""Draw the samples of a benchmark, grade each, record each: what `sif eval` spends its time on.

    draw(policy, exam, recipe, processes, store)

One flushed record per sample as it finishes, so that a kill loses only what was being decoded; called again, only
missing samples are drawn, in the batches that they would have had (see `Policy.stream`). Grading goes on in a thread
behind generation, in worker processes with a time limit.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sif_trainer.evaluation.processes import Processes
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.store import SampleStore
from sif_trainer.policy import Policy, PromptTooLong, Sample
from sif_trainer.policy.policy import digest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.progress import Progress
from sif_trainer.tasks.benchmarks import Benchmark, benchmark
from sif_trainer.tasks.extract import last_box
from sif_trainer.tasks.grade import grade_many
from sif_trainer.tasks.load import Problem, load_benchmark
from sif_trainer.tasks.verdict import Item


@dataclass(frozen=True)
class Exam:
    """A benchmark and those of its problems that are asked."""

    benchmark: Benchmark
    problems: list[Problem]

    @property
    def name(self) -> str:
        return self.benchmark.name


def load_exams(recipe: EvalRecipe) -> list[Exam]:
    """Read every benchmark before any work, so that a missing file is found at once."""
    return [Exam(benchmark(name), load_benchmark(name, recipe.data_dir, recipe.limit)) for name in recipe.benchmarks]


def show_prompts(policy: Policy, exams: Iterable[Exam], recipe: EvalRecipe, run: RunFolder) -> None:
    """Print the first prompt as the model reads it, and record all of them in `prompts.jsonl`, each once."""
    records = run.records("prompts")
    present = {(record["benchmark"], record["id"]) for record in records}
    shown = not run.writer
    encoder = getattr(policy, "encoder", None)
    if run.writer and recipe.chat and encoder is not None and not encoder.chat_template:
        print("the tokenizer has no chat template: prompts are sent as plain text", file=sys.stderr)
    for exam in exams:
        for problem in exam.problems:
            text = policy.render(recipe.prompt(problem))
            if not shown:
                print(f"first prompt ({exam.name}, {problem.id}):\n{text}\n", file=sys.stderr, flush=True)
                shown = True
            if (exam.name, problem.id) not in present:
                records.append(
                    {
                        "benchmark": exam.name,
                        "id": problem.id,
                        "prompt": text,
                        "prompt_sha": _sha(text),
                        "gold": problem.gold,
                        "problem_sha": digest(problem.prompt, problem.gold, problem.rule, dict(problem.fields))[:16],
                    }
                )


def missing(exam: Exam, num_samples: int, store: SampleStore) -> list[tuple[Problem, int]]:
    """Return the pairs of problem and sample index that are not recorded."""
    return [
        (problem, index)
        for problem in fitting(exam, store)
        for index in range(num_samples)
        if (exam.name, problem.id, index) not in store.done
    ]


def fitting(exam: Exam, store: SampleStore) -> list[Problem]:
    """Return the problems that are not known to be too long."""
    return [problem for problem in exam.problems if (exam.name, problem.id) not in store.left_out]


def draw(policy: Policy, exam: Exam, recipe: EvalRecipe, processes: Processes, store: SampleStore) -> None:
    """Draw, grade and record what is missing of this process's share.

    Raises:
        UserError: what the engine cannot mend, such as a server that is down; what was finished is recorded.
    """
    own, n = Exam(exam.benchmark, processes.share(exam.problems)), recipe.num_samples
    problems = fitting(own, store)
    done = n * len(problems) - len(missing(own, n, store))
    with Progress(exam.name, n * len(problems), "sample", done) as progress:
        while missing(own, n, store):
            try:
                _draw_problems(policy, problems, recipe, store, progress)
            except PromptTooLong as error:
                why = f"the prompt has more than {error.limit} tokens" if error.limit else error.reason
                for index in error.indices:
                    store.leave_out(exam.name, problems[index].id, why)
                print(f"{exam.name}: left out as too long: {len(error.indices)}", file=sys.stderr, flush=True)
                problems = fitting(own, store)
                progress.total = n * len(problems)


def _draw_problems(
    policy: Policy, problems: list[Problem], recipe: EvalRecipe, store: SampleStore, progress: Progress
) -> None:
    prompts = [recipe.prompt(problem) for problem in problems]
    n = recipe.num_samples
    recorded = {
        (place, index)
        for place, problem in enumerate(problems)
        for index in range(n)
        if (problem.benchmark, problem.id, index) in store.done
    }

    def record(place: int, index: int, sample: Sample) -> None:
        store.add(graded(problems[place], index, sample, _sha(policy.render(prompts[place]))))
        progress.update()

    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="grade") as thread:
        for finished in policy.stream(prompts, n, recipe.sampling, skip=recorded):
            waiting.append(thread.submit(record, *finished))
            while waiting and waiting[0].done():
                waiting.popleft().result()  # raises here what went wrong there
        for future in waiting:
            future.result()


def graded(problem: Problem, index: int, sample: Sample, prompt_sha: str) -> dict[str, Any]:
    """Return a sample's record."""
    grade = grade_many([Item(sample.text, problem.gold, problem.rule, fields=problem.fields)])[0]
    return {
        "benchmark": problem.benchmark,
        "id": problem.id,
        "sample": index,
        "score": grade.score,
        "verdict": grade.verdict,
        "answer": grade.extracted,
        "why": grade.why,
        "boxed": last_box(sample.text) is not None,
        "prompt_sha": prompt_sha,
        **{name: value for name, value in sample.to_json().items() if name != "token_ids"},
    }


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
