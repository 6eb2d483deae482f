"""`sif probe RECIPE [key=value …]`: before training, is internal feedback likely to help this policy on these prompts?

    sif probe smoke/quickstart
    sif probe train/smollm2-135m_gsm8k_cpu prompts=mine.jsonl num_probe_prompts=24 --run runs/probe/mine

Takes a training recipe and trains nothing: it samples groups, scores them and lets every rule vote. Where the prompts'
source has answers and the recipe a rule to grade by, it says whether the winners are right; without, what it cannot
say. Calling it again goes on where it was; a finished probe shows its page again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sif_trainer.cli.recipe_arguments import add_recipe_arguments, default_folder
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe
from sif_trainer.runs.schema import build

if TYPE_CHECKING:
    from sif_trainer.probe.recipe import ProbeRecipe
    from sif_trainer.probe.sample import Grader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif probe` takes."""
    add_recipe_arguments(parser, "a training recipe's name, such as smoke/quickstart, or its path", "probe")


def run(args: argparse.Namespace) -> int:
    """Sample what is missing, and show the page."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("a probe runs in one process; start it without a launcher")
    print("loading torch and trl …", file=sys.stderr, flush=True)
    from sif_trainer.cli.train import paper_recipe, quiet_libraries

    quiet_libraries()
    from sif_trainer.probe.recipe import ProbeRecipe, refuse_other_sampling
    from sif_trainer.report.probe import show_probe
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.factory import build_config

    values = load_recipe(args.recipe, args.overrides, ProbeRecipe, SIFConfig)
    recipe = build(ProbeRecipe, values)
    path = default_folder(args, "probe")
    config = build_config(values, path)
    refuse_other_sampling(config)
    paper = paper_recipe(ProbeRecipe, SIFConfig)
    folder = RunFolder.open(path, "probe", {**paper, **values}, reference=paper, seed=config.seed)
    if not folder.finished:
        _probe(recipe, config, folder)
    show_probe(path)
    return 0


def _probe(recipe: ProbeRecipe, config: Any, folder: RunFolder) -> None:
    """Load, sample, score, summarise."""
    from sif_trainer.cli.train import answer_reader
    from sif_trainer.data.prompts import load_prompts
    from sif_trainer.policy.checkpoint import load_trainable
    from sif_trainer.policy.transformers_engine import TransformersPolicy
    from sif_trainer.probe.rules import check_rule
    from sif_trainer.probe.sample import Readers, draw_groups, pick
    from sif_trainer.probe.summary import summarise
    from sif_trainer.trainer.adapters import check_adapter, continued
    from sif_trainer.trainer.factory import explain

    check_adapter(recipe)
    answers = answer_reader(recipe.reading_rule)
    check_rule(config, answers is not None, recipe.grading_rule is not None)
    template = config.chat_template_kwargs or {}
    model, tokenizer = load_trainable(recipe.model, recipe.dtype, recipe.load_in_4bit)
    model = continued(model, recipe).to(config.device)
    policy = TransformersPolicy(model, tokenizer, batch_size=recipe.probe_batch_size, chat_template_kwargs=template)
    prompts = load_prompts(recipe, tokenizer, config.seed, **template)
    rows = pick(prompts.dataset, recipe.num_probe_prompts, config.seed)
    grade = _grader(recipe, config, [row["id"] for row in rows])
    for line in explain(recipe, config, prompts, tokenizer):
        print(line, file=sys.stderr)
    print(f"probe:   {len(rows)} prompts x {config.num_generations} responses", file=sys.stderr, flush=True)
    records = folder.records("groups")
    draw_groups(policy, rows, config, Readers(answers, grade), records)
    folder.finish(summarise(config, sorted(records, key=lambda record: record["id"])))


def _grader(recipe: ProbeRecipe, config: Any, ids: Sequence[str]) -> Grader | None:
    """What grades responses by the reference answers of the sampled prompts; None, with a note, where there are none.

    Raises:
        UserError: an answer column that was named and has no answers, or answers that the rule cannot read.
    """
    if recipe.grading_rule is None:
        print("answers: none are read, because neither monitor nor validation_rule is set", file=sys.stderr)
        return None
    from sif_trainer.data.answers import load_answers
    from sif_trainer.tasks.monitor import accuracy_monitor
    from sif_trainer.tasks.rules import reads

    rule = recipe.grading_rule
    accuracy_monitor({}, rule)  # refuses an unknown rule
    split, limit = recipe.prompt_split, recipe.num_prompts
    try:
        found = load_answers(recipe.prompts, recipe.answer_column, split, limit, config.seed, recipe.data_dir)
    except UserError as error:
        if recipe.answer_column is not None or "verdict" in config.find_rule().reads:
            raise
        print(f"answers: none are read, because {error}", file=sys.stderr)
        return None
    answers = {name: found[name] for name in ids if name in found}
    unreadable = [name for name, answer in answers.items() if not reads(rule, answer.gold)]
    if answers and len(unreadable) == len(answers):
        raise UserError(
            f"{recipe.prompts}: the rule '{rule}' can read none of the answers (row '{unreadable[0]}' has "
            f"{answers[unreadable[0]].gold!r:.60}); name another rule as monitor=…, or the right answer_column"
        )
    if missing := [*unreadable, *(name for name in ids if name not in answers)]:
        print(
            f"answers: {len(missing)} of {len(ids)} prompts have none that '{rule}' can read: {_some(missing)}",
            file=sys.stderr,
        )
    return accuracy_monitor({name: answer for name, answer in answers.items() if name not in unreadable}, rule)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
