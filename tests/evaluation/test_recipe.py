"""The recipes that come with the package, and the paper's decoding as the default."""

from __future__ import annotations

import pytest

from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.policy import Sampling
from sif_trainer.runs.recipe import load_recipe, recipe_names
from sif_trainer.runs.schema import build
from sif_trainer.tasks.load import Problem

NAMES = [name for name in recipe_names() if name.startswith("evaluate/")] + ["smoke/evaluate"]


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_is_sound(name):
    recipe = build(EvalRecipe, load_recipe(name, [], EvalRecipe))
    assert recipe.benchmarks and recipe.ks[-1] <= recipe.num_samples


def test_the_default_is_the_papers_decoding():
    recipe = EvalRecipe(model="m", suite="math500")
    assert recipe.sampling == Sampling(temperature=0.6, top_p=1.0, top_k=0, max_tokens=3072, seed=123)
    assert (recipe.num_samples, recipe.ks, recipe.max_prompt_length) == (8, [8], 1024)
    papers = build(EvalRecipe, load_recipe("evaluate/sif12", [], EvalRecipe))
    assert papers.sampling == recipe.sampling
    assert len(papers.benchmarks) == 12


def test_a_problem_is_put_as_the_recipe_says():
    problem = Problem("1", "math500", "What is 2 + 2?", "4")
    user = {"role": "user", "content": "What is 2 + 2?"}
    assert EvalRecipe(model="m", suite="math500").prompt(problem) == [user]
    assert EvalRecipe(model="m", suite="math500", system_prompt="Be brief.").prompt(problem) == [
        {"role": "system", "content": "Be brief."},
        user,
    ]
    plain = EvalRecipe(model="m", suite="math500", system_prompt="Be brief.", chat=False)
    assert plain.prompt(problem) == "Be brief.\n\nWhat is 2 + 2?"


def test_how_the_engine_works_is_no_part_of_the_settings():
    fast = EvalRecipe(model="m", suite="math500", batch_size=512, engine_options={"dtype": "bfloat16"})
    assert fast.settings == EvalRecipe(model="m", suite="math500").settings
    assert "temperature" in fast.settings
