"""Live searches and recorded pools from recipes, and the command as a user types it."""

from __future__ import annotations

import argparse
import json
import math
import shutil

import numpy as np
import pytest

from sif_trainer.cli import adap as command
from sif_trainer.policy import Sampling
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import load_recipe
from sif_trainer.runs.schema import build
from sif_trainer.systems.adap import Costs, Problem
from sif_trainer.systems.adap.best_of_n import at_equal_cost
from sif_trainer.systems.adap.pools import read_pool
from sif_trainer.systems.adap.recipe import SearchRecipe
from sif_trainer.systems.adap.samplers import PolicySampler


def sif(*arguments):
    """Run `sif adap ...` in this process."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_intermixed_args(list(map(str, arguments))))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def own(tmp_path):
    """A problem file and a script: problem a is solved by each third reply, b by none."""
    problems = tmp_path / "problems.jsonl"
    problems.write_text(
        '{"id": "a", "prompt": "one and one", "reference": "2"}\n{"id": "b", "prompt": "two", "reference": "7"}\n'
    )
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": {"one": ["3", "so it is 5", "2"], "two": ["1", "5 or 6", "8", "9"]}}))
    recipe = tmp_path / "own.yaml"
    recipe.write_text(
        f"model: scripted:{script}\nproblems: {problems}\nscorer: function\n"
        "scorer_options: {function: 'mine:length'}\nverifier: math\nmax_cost: 100\nmax_completion_length: 20\n"
    )
    scorer = tmp_path / "mine.py"
    scorer.write_text("def length(problem, candidates):\n    return [float(len(c.text)) for c in candidates]\n")
    recipe.write_text(recipe.read_text().replace("mine:length", f"{scorer}:length"))
    return recipe


def test_a_search_of_ones_own_problems(own, tmp_path, capsys):
    run = tmp_path / "run"
    assert sif("search", own, "--run", run) == 0
    out = capsys.readouterr().out
    assert "2 problems: verified 1, budget 1" in out or "2 problems: budget 1, verified 1" in out
    results = {row["id"]: row for row in lines(run / "results.jsonl")}
    assert results["a"]["status"] == "verified" and results["b"]["stopped_by"] == "cost"
    assert results["b"]["cost"] <= 100
    problems = [row for row in lines(run / "trace.jsonl") if row["event"] == "problem"]
    assert sorted((row["id"], row["prompt"][0]["content"]) for row in problems) == [("a", "one and one"), ("b", "two")]
    assert sif("search", own, "--run", run) == 0
    assert capsys.readouterr().out == out


def test_a_killed_search_goes_on_without_repeating_a_draw(own, tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    sif("search", own, "in_flight=1", "--run", whole)
    trace = (whole / "trace.jsonl").read_text()
    for share in (0, 0.3, 0.7, 1):
        shutil.rmtree(cut, ignore_errors=True)
        shutil.copytree(whole, cut)
        for name in ("summary.json", "results.jsonl", "best_of_n.jsonl", "unranked.jsonl"):
            (cut / name).unlink()
        (cut / "trace.jsonl").write_text(trace[: int(share * len(trace))])  # a line is torn
        sif("search", own, "in_flight=1", "--run", cut)
        assert lines(cut / "results.jsonl") == lines(whole / "results.jsonl")
        draws = [(row["id"], row["index"]) for row in lines(cut / "trace.jsonl") if row["event"] == "draw"]
        assert len(draws) == len(set(draws))
        assert (cut / "summary.json").read_text() == (whole / "summary.json").read_text()
    capsys.readouterr()


def test_another_model_is_refused(own, tmp_path):
    run = tmp_path / "run"
    sif("search", own, "--run", run)
    (run / "summary.json").unlink()
    with pytest.raises(UserError, match="this run began with the model"):
        sif("search", own, "engine_options={identity: another}", "--run", run)


@pytest.mark.parametrize("stage", ["search", "record"])
@pytest.mark.parametrize("name", ["problems", "script"])
def test_an_edited_file_never_gives_an_earlier_summary(own, tmp_path, stage, name):
    sif(stage, own, "--run", tmp_path / "run")
    file = next(tmp_path.glob(f"{name}.json*"))
    file.write_text(file.read_text().replace("one", "none"))
    with pytest.raises(UserError, match=f"the content of {'problems' if name == 'problems' else 'model'} is"):
        sif(stage, own, "--run", tmp_path / "run")


def test_an_edited_pool_never_gives_an_earlier_summary(tmp_path):
    pool, recipe = tmp_path / "pool.jsonl", tmp_path / "pooled.yaml"
    recipe.write_text(f"model: recorded:{pool}\n")
    for labels in ("[0, 1]", "[1, 0]"):
        pool.write_text(f'{{"id": "a", "rewards": [1, 2], "labels": {labels}}}\n')
        if labels == "[1, 0]":
            with pytest.raises(UserError, match="the content of recorded is"):
                sif("search", recipe, "--run", tmp_path / "run")
        else:
            sif("search", recipe, "--run", tmp_path / "run")


def test_the_files_of_a_benchmark_are_inputs(tmp_path):
    (tmp_path / "gsm8k_test.jsonl").write_text('{"id": "1", "problem": "x", "answer": "1"}\n')
    settings = ["benchmark=gsm8k", f"data_dir={tmp_path}"]
    recipe = build(SearchRecipe, load_recipe("adap/smollm2-135m", settings, SearchRecipe))
    assert recipe.inputs["gsm8k"] == tmp_path / "gsm8k_test.jsonl"
    assert all(source is None for name, source in recipe.inputs.items() if name != "gsm8k")


def test_a_recorded_pool_is_what_a_search_sees(own, tmp_path, capsys):
    run = tmp_path / "record"
    assert sif("record", own, "num_samples=12", "--run", run) == 0
    assert "24 samples of 2 problems, 1 of them with a correct one" in capsys.readouterr().out
    for name in ("pool.npz", "pool.jsonl"):
        a, b = read_pool(run / name)
        assert a.labels.tolist() == [False, False, True] * 4 and not b.labels.any()
        assert a.rewards.tolist() == [1, 10, 1] * 4
    assert sif("replay", run / "pool.npz", "--run", tmp_path / "replay") == 0
    assert "1 problem(s) without one are left out" in capsys.readouterr().out
    pooled = tmp_path / "pooled.yaml"
    pooled.write_text(f"model: recorded:{run / 'pool.npz'}\n")
    assert sif("search", pooled, "--run", tmp_path / "search") == 0
    results = lines(tmp_path / "search" / "results.jsonl")
    assert {row["id"]: row["status"] for row in results} == {"a": "verified", "b": "exhausted"}


def test_the_embedded_policy(tmp_path, capsys):
    run = tmp_path / "run"
    assert sif("search", "adap/cipher", "limit=6", "--run", run) == 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["num_problems"] == 6 and summary["success_rate"]["value"] == 1
    assert {"best_of_n", "unranked"} <= set(summary)
    assert summary["best_of_n"]["num_draws"] == math.ceil(summary["cost"]["value"] - 10)
    draws = [row for row in lines(run / "trace.jsonl") if row["event"] == "draw"]
    assert all(row["sample"]["mean_certainty"] > 0 for row in draws)
    assert "search minus this" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["cipher", "smollm2-135m"])
def test_recipes_load(name):
    recipe = build(SearchRecipe, load_recipe(f"adap/{name}", [], SearchRecipe))
    assert recipe.costs == Costs.of(1, 10) and recipe.budget.cost is not None
    assert recipe.sampling.certainty


def test_a_policys_draws_do_not_depend_on_how_they_are_asked_for():
    policy = ScriptedPolicy(lambda text, number: f"{text} {number}")
    problem = Problem("p", "say")
    sampler = PolicySampler(policy, Sampling(), batch_size=4, answer=lambda problem, text: text[-1])
    together = list(sampler.draw(problem, 10, 0))
    apart = [c for first, num in ((0, 3), (3, 1), (4, 6)) for c in sampler.draw(problem, num, first)]
    assert [c.text for c in together] == [f"say {n}" for n in range(10)]
    assert [(c.text, c.index, c.answer) for c in together] == [(c.text, c.index, c.answer) for c in apart]


def test_equal_cost():
    fixed = at_equal_cost(Costs.of(1, 10), 68.7)
    assert fixed == {"best_of_n": (59, 1), "unranked": (7, 7)}
    assert at_equal_cost(Costs.of(1, 10), 5) == {"best_of_n": (1, 1), "unranked": (1, 1)}


def test_plan_and_simulate_and_json(tmp_path, capsys):
    assert sif("plan", "--c-rew", "1/3", "--c-ver", "0.5") == 0
    assert "cost so far" in capsys.readouterr().out
    assert sif("plan", "--c-rew", 1, "--c-ver", 10, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["shell"], row["num_draws"], row["num_verifications"]) for row in rows[:2]] == [(3, 8, 6), (4, 32, 12)]
    assert sif("plan", "--rule", "balanced", "--rounds", 3) == 0
    assert "5" in capsys.readouterr().out
    assert sif("simulate", "num_instances=20", "num_runs=3", "--run", tmp_path / "simulate") == 0
    assert "the theorem allows 400" in capsys.readouterr().out
    pool = tmp_path / "pool.npz"
    rng = np.random.default_rng(0)
    np.savez(pool, ids=["a", "b"], rewards=rng.random((2, 30)), labels=rng.random((2, 30)) < 0.2)
    assert sif("replay", pool, "c_ver=[1,2.5]", "--json", "--run", tmp_path / "replay") == 0
    summary = json.loads(capsys.readouterr().out)
    assert set(summary["c_ver"]) == {"1", "2.5"} and len(summary["c_ver"]["1"]["dap"]) == 2
    figures = [tmp_path / "replay" / f"{name}.png" for name in ("curves", "costs", "premise")]
    assert all(figure.read_bytes()[:4] == b"\x89PNG" for figure in figures)
    assert len(lines(tmp_path / "replay" / "trials.jsonl")) == 40
    np.savez(pool, ids=["a", "b"], rewards=rng.random((2, 30)), labels=rng.random((2, 30)) < 0.2)
    with pytest.raises(UserError, match="the content of pool is"):  # another pool of that name
        sif("replay", pool, "c_ver=[1,2.5]", "--run", tmp_path / "replay")


@pytest.mark.parametrize("rule", ["adap", "balanced"])
@pytest.mark.parametrize("prices", [("1e-30", "1e30"), ("1e30", "1e-30"), ("1e30", "1e30")])
def test_the_largest_plan_can_be_printed(rule, prices, capsys):
    c_rew, c_ver = prices
    assert sif("plan", "--c-rew", c_rew, "--c-ver", c_ver, "--rounds", 100, "--rule", rule) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 100
    assert sif("plan", "--c-rew", c_rew, "--c-ver", c_ver, "--rounds", 100, "--rule", rule, "--json") == 0
    assert all(math.isfinite(row["total_cost"]) for row in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plann"], "no stage 'plann'; did you mean 'plan'"),
        (["plan", "--c-ver", "0"], "c_ver is 0; it must be more than 0"),
        (["plan", "--c-ver", "1e400"], "c_ver is 1e400; it must be between 1e-30 and 1e30"),
        (["plan", "--c-rew", "1e-999999999"], "c_rew is 1e-999999999; it must be between"),  # never written out
        (["plan", "--c-ver", "inf"], "c_ver is inf; it must be a positive number"),
        (["plan", "--rounds", "100000"], "the number of rounds is 100000; it must be between 1 and 100"),
        (["plan", "--rounds", "0"], "the number of rounds is 0"),
        (["search", "adap/cipher", "c_ver=1e300"], "c_ver is 1e\\+300; it must be between"),
        (["plan", "c_ver=3"], "prices are given as --c-rew 1 --c-ver 10"),
        (["plan", "--rule", "adapt"], "did you mean 'adap'"),
        (["replay", "c_ver=[1]"], "name a pool, .npz or JSON lines, before the settings"),
        (["replay", "/no/such/pool.npz"], "no such file"),
        (["replay", "/no/such/pool.npz", "c_vers=[1]"], "did you mean 'c_ver'"),
        (["replay", "/no/such/pool.npz", "num_permutations=0"], "num_permutations is 0"),
        (["search"], "name a recipe"),
        (["search", "adap/cipher", "c_ver=-1"], "c_ver is -1"),
        (["search", "adap/cipher", "scorer=certain"], "no scorer 'certain'; did you mean 'certainty'"),
        (["search", "adap/cipher", "verifier=maths"], "no verifier 'maths'; did you mean 'math'"),
        (["search", "adap/cipher", "rule=balance"], "no rule 'balance'; did you mean 'balanced'"),
        (["search", "adap/cipher", "problems=x.jsonl"], "name either a benchmark or a file of problems"),
        (["search", "adap/cipher", "temperature=0"], "temperature=0 draws the same candidate"),
        (["search", "adap/cipher", "max_cost=-3"], "the budget's cost is -3"),
        (["search", "adap/cipher", "limit=0"], "limit is 0"),
        (["search", "adap/cipher", "scorer_options={x: 1}"], "scorer 'certainty' has other options"),
        (["record", "adap/cipher", "num_samples=0"], "num_samples is 0"),
        (["simulate", "num_instances=0"], "num_instances is 0"),
        (["simulate", "seed=-1"], "seed is -1"),
        (["replay", "/no/such/pool.npz", "c_ver=[0]"], "c_ver is 0"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, message, tmp_path):
    with pytest.raises(UserError, match=message):
        sif(*arguments, "--run", tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no problems in it"),
        ('{"id": 1, "prompt": "x"}\n', "line 1: no reference"),
        ('{"id": 1, "prompt": "x", "reference": "y"}\n' * 2, "line 2: the id 1 stands there twice"),
        ('{"id": 1, "prompt": 5, "reference": "y"}\n', "line 1: prompt must be a text, or a list of messages"),
        ('{"id": 1, "prompt": [], "reference": "y"}\n', "line 1: prompt must be a text"),
        ('{"id": 1, "prompt": [{"role": "user"}], "reference": "y"}\n', "line 1: prompt must be a text"),
        ('{"id": 1, "prompt": "x", "reference": "y", "metadata": "z"}\n', "line 1: metadata must be an object"),
        (
            '{"id": 1, "prompt": "x", "reference": "y", "metadata": {"rule": "maths"}}\n',
            "line 1: no grading rule 'maths'; did you mean 'math'",
        ),
    ],
)
def test_problem_files_that_are_refused(text, message, own, tmp_path):
    (tmp_path / "problems.jsonl").write_text(text)
    with pytest.raises(UserError, match=message):
        sif("search", own, "--run", tmp_path / "run")
