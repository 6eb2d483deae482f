"""The model stage: a policy judges 432 decisions of 16 records each, for every selector.

    sif jointcore model jointcore/smollm2-135m
    sif jointcore model jointcore/scripted every=8

One record per task in `records.jsonl`, the policy's replies in `replies.sqlite`: a killed run goes on with the
unfinished tasks and asks nothing twice. The paper's frozen protocol document names other labels than its code and
tables; the primary labels are YES and NO here, as in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sif_trainer.policy import load_policy
from sif_trainer.policy.load import script_of
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.inputs import Source
from sif_trainer.runs.progress import Progress
from sif_trainer.systems.jointcore.interview import Interview, Judge, ask_all, interview
from sif_trainer.systems.jointcore.replies import PolicyReplies
from sif_trainer.systems.jointcore.selectors import PUBLISHED, SELECTORS
from sif_trainer.systems.jointcore.simulated import Simulated
from sif_trainer.systems.jointcore.tasks import MODEL_BUDGET, Task, model_tasks

MakeJudge: TypeAlias = Callable[[], Judge]

MEANS = {  # name in a summary: key in a record; rates and means are over tasks
    "behaviour_rate": "behaviour",
    "sufficiency_rate": "sufficient",
    "minimum_rate": "minimum",
    "savings_rate": "savings",
    "queries": "queries",
    "recall_rate": "recall",
    "cost_gap": "cost_gap",
    "success_rate": "success",
    "published_success_rate": "published_success",
    "reply_accuracy": "reply_accuracy",
    "exhausted_rate": "exhausted",
}


@dataclass(frozen=True)
class ModelRecipe:
    """One policy, the tasks that it judges, and how many at once. Defaults are the published stage."""

    model: str = field(
        metadata={
            "help": "Folder, hub id, .gguf file, pypi:PACKAGE, vllm:NAME, scripted:FILE, an http address, or "
            "simulated:RATE (a perfect judge whose replies are flipped RATE times in a thousand)."
        }
    )
    every: int = field(
        default=1, metadata={"help": "Take each so-many-th of the 432 tasks; 7 gives 62, 1 all (paper)."}
    )
    methods: tuple[str, ...] = field(default=PUBLISHED, metadata={"help": "Selectors by name. Paper: all eight."})
    budget: int = field(default=MODEL_BUDGET, metadata={"help": "Questions per search. Paper: 64."})
    in_flight: int = field(default=16, metadata={"help": "Tasks whose questions are batched together."})
    max_input_tokens: int = field(
        default=768, metadata={"help": "Longest prompt with label; a longer one is an invalid reply. Paper: 768."}
    )
    batch_size: int | None = field(
        default=None, metadata={"help": "Prompts scored at once; the engine's if left out."}
    )
    engine_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "More options of the engine, such as {dtype: bfloat16}."}
    )

    def __post_init__(self) -> None:
        for name in ("every", "budget", "in_flight", "max_input_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for method in self.methods:
            if method not in SELECTORS:
                raise ValueError(f"methods: no selector '{method}'{nearest(method, SELECTORS)}")

    @property
    def inputs(self) -> dict[str, Source | None]:
        """The files that a run reads, which must be the same when it goes on."""
        return {"model": script_of(self.model)}


def make_judge(recipe: ModelRecipe, run: RunFolder) -> Judge:
    """Return the recipe's policy as a judge whose replies are kept in the run folder."""
    engine, _, name = recipe.model.partition(":")
    if engine == "simulated":
        return Simulated(recipe.model, flip=_rate(name))
    is_server = engine in ("http", "https")
    options = dict(recipe.engine_options)
    if recipe.batch_size is not None:
        options["max_in_flight" if is_server else "batch_size"] = recipe.batch_size
    if not is_server and engine != "scripted":  # these have no tokenizer of their own
        options["max_input_tokens"] = recipe.max_input_tokens
    try:
        policy = load_policy(recipe.model, cache=run.path / "replies.sqlite", **options)
    except TypeError as error:
        if "keyword argument" not in str(error):
            raise
        raise UserError(f"{recipe.model} does not take an option that the recipe gives it: {error}") from error
    _refuse_another_model(run, policy.identity)
    return PolicyReplies(policy)


def _refuse_another_model(run: RunFolder, identity: str) -> None:
    """Remember which weights answer, so that one run never mixes two."""
    before = next(iter(run.records("model")), {"identity": identity})["identity"]
    if before != identity:
        raise UserError(f"this run began with the model {before}, not {identity}; choose another folder with --run")
    if not (run.path / "model.jsonl").exists():
        run.records("model").append({"identity": identity})


def _rate(text: str) -> int:
    if not text.isdecimal() or int(text) > 1000:
        raise UserError(f"model: 'simulated:{text}' names no rate; write simulated:50 for 50 flips in a thousand")
    return int(text)


def judge_tasks(
    run: RunFolder, tasks: Sequence[Task], interview_of: Callable[[Task], Interview], judge: MakeJudge, in_flight: int
) -> list[dict[str, Any]]:
    """Judge the tasks that the run's records lack, one record each, and return all records in index order."""
    records = run.records("records")
    known = {record["index"] for record in records}
    missing = [task for task in tasks if task.index not in known]
    with Progress("jointcore", total=len(tasks), unit="task", done=len(tasks) - len(missing)) as progress:
        if missing:
            for record in ask_all(map(interview_of, missing), judge(), in_flight):
                records.append(record)
                progress.update()
    return sorted(records, key=lambda record: record["index"])


def run_model(run: RunFolder, recipe: ModelRecipe, judge: MakeJudge) -> dict[str, Any]:
    """Judge the recipe's tasks and return the summary; `judge` makes the judge when one is needed."""
    if not run.finished:
        tasks = [task for task in model_tasks() if task.index % recipe.every == 0]
        selectors = {name: SELECTORS[name] for name in recipe.methods}
        records = judge_tasks(
            run, tasks, lambda task: interview(task, selectors, recipe.budget), judge, recipe.in_flight
        )
        run.finish(summarise(records))
    return run.summary


def summarise(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return num_tasks, control_rate (the full memory's reply is right) and each method's means over the records."""
    methods = {}
    for name in records[0]["methods"]:
        rows = [record["methods"][name] for record in records]
        methods[name] = {key: mean(row[source] for row in rows) for key, source in MEANS.items()}
        methods[name]["num_invalid"] = sum(row["num_invalid"] for row in rows)
    return {
        "num_tasks": len(records),
        "control_rate": mean(record["control_correct"] for record in records),
        "methods": methods,
    }


def mean(values: Iterator[Any]) -> float | None:
    """Return the plain mean of the values that are not None, or None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return a summary as a table of text."""
    columns = {
        "behaviour": "behaviour_rate",
        "sufficient": "sufficiency_rate",
        "minimum": "minimum_rate",
        "savings": "savings_rate",
        "queries": "queries",
        "success": "success_rate",
        "published": "published_success_rate",
    }
    lines = [f"{'method':<28}" + "".join(f"{head:>12}" for head in columns)]
    for name, row in summary["methods"].items():
        lines.append(f"{name:<28}" + "".join(f"{row[column]:>12.3f}" for column in columns.values()))
    lines.append(
        f"{summary['num_tasks']} tasks; the full memory's reply is right in {summary['control_rate']:.3f} of them"
    )
    return "\n".join(lines)
