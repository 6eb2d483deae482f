"""One evaluation from recipe to `results.json`; `sif eval` is its command.

    run = RunFolder.open("runs/eval/mine", "eval", recipe.settings, seed=recipe.seed)
    results = evaluate(recipe, run, Processes())

Killed at any moment and called again, it goes on with the first missing sample.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from sif_trainer.evaluation.processes import Processes
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.results import Results, summarise
from sif_trainer.evaluation.sample import draw, load_exams, missing, show_prompts
from sif_trainer.evaluation.store import SampleStore
from sif_trainer.policy import Policy, load_policy
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder


def evaluate(recipe: EvalRecipe, run: RunFolder, processes: Processes) -> Results | None:
    """Draw what is missing and write `results.json`; return it in the process that writes, None in the others.

    Raises:
        UserError: an unknown model or file, an engine that fails, or a model that has changed since the run began.
    """
    exams = load_exams(recipe)
    processes.wait()  # until the folder is open
    store = SampleStore(run.path, processes.rank)
    processes.wait()  # until every process has read what is there, before any writes more
    if any(missing(exam, recipe.num_samples, store) for exam in exams):
        if run.writer:
            print(f"loading {recipe.model} …", file=sys.stderr, flush=True)
        policy = open_policy(recipe)
        _same_model(policy, recipe, run)
        show_prompts(policy, exams, recipe, run)
        for exam in exams:
            draw(policy, exam, recipe, processes, store)
    processes.wait()
    if not run.writer:
        return None
    store.merge()
    results = summarise(exams, recipe, store)
    run.write_json("results", asdict(results))
    return results


def open_policy(recipe: EvalRecipe) -> Policy:
    """Load the recipe's model with its engine's options."""
    options: dict[str, Any] = dict(recipe.engine_options)
    if recipe.chat_template_kwargs:
        options["chat_template_kwargs"] = recipe.chat_template_kwargs
    is_server = recipe.model.startswith(("http:", "https:"))
    if not is_server and not recipe.model.startswith("scripted:"):  # these have no tokenizer of their own
        options["max_input_tokens"] = recipe.max_prompt_length
    if recipe.batch_size:
        options["max_in_flight" if is_server else "batch_size"] = recipe.batch_size
    try:
        return load_policy(recipe.model, **options)
    except TypeError as error:
        if "keyword argument" not in str(error):
            raise
        raise UserError(f"{recipe.model} does not take an option that the recipe gives it: {error}") from error


def _same_model(policy: Policy, recipe: EvalRecipe, run: RunFolder) -> None:
    """Remember which weights answer, and refuse to mix two models in one run."""
    path = run.path / "model.json"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))["identity"]
        if before != policy.identity:
            raise UserError(
                f"the model {recipe.model} is not the one that this run began with (now {policy.identity}, "
                f"then {before}); choose another folder with --run"
            )
    engine = {"batch_size": recipe.batch_size, "engine_options": recipe.engine_options}
    run.write_json("model", {"model": recipe.model, "identity": policy.identity, **engine})
