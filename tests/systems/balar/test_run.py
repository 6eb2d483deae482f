"""`sif balar run`: studies over every data set with a scripted model, killed and resumed, and what is refused."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sif_trainer.cli import balar as command
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import load_recipe, recipe_names
from sif_trainer.runs.schema import build
from sif_trainer.systems.balar import NOBODY, Trace, agents, run_case
from sif_trainer.systems.balar.chat import ChatRecipe
from sif_trainer.systems.balar.environments.instances import load_instances
from sif_trainer.systems.balar.recipe import METHODS, BalarRecipe
from sif_trainer.systems.balar.run import trace_name
from sif_trainer.systems.balar.summary import summarise

ROOT = Path(__file__).parents[3]
ICRAFT = [
    {
        "id": number,
        "question": "Which diagnosis is it?",
        "options": {"A": "Measles", "B": "Gout", "C": "Flu"},
        "answer": ("Measles", "Gout")[number % 2],
        "context": [f"Person {number} has a sore toe."],
        "facts": ["1. The toe is red, and the secret is mauve."],
        "patient": {"age": "60 years", "gender": "male"},
    }
    for number in range(6)
]
SITUATION = [{"surface": f"Scene {number}.", "bottom": "His fields were dry."} for number in range(2)]
SUSPECTS = [
    {"name": name, "introduction": f"{name} bakes.", "task": "Deflect.", "story": "At home."}
    for name in ("Ada", "Ben")
]
DETECTIVE = [
    {
        "time": "noon",
        "location": "a mill",
        "victim": {"name": "Vic", "introduction": "A miller.", "cause_of_death": "a fall", "murder_weapon": "none"},
        "suspects": SUSPECTS,
        "initial_information": {"suspect": SUSPECTS[::-1]},
        "label": 0,
    }
]
DATA = {"icraft": ICRAFT, "situation": SITUATION, "detective": DETECTIVE, "guessing": ["4071", "1234"]}
SCORES = dict.fromkeys([*"ABCDEFGHIJ", *"123456789", "likely", "neutral", "unlikely"], -1.0)
REPLIES = ["Was it 4071?", "", "Perhaps it was dry.", "The toe is red."]
SETTINGS = [
    *("label_only=true", "reason_tokens=4", "num_dimensions=1", "num_questions=1", "max_values=2", "max_choices=2"),
    *("num_new_questions=1", "num_uncertain=0", "max_asks=2", "max_rounds=4", "rounds=[1]", "depth=1"),
]


def sif(*arguments):
    """Run `sif balar ...` in this process."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_intermixed_args(list(map(str, arguments))))


@pytest.fixture
def files(tmp_path):
    """A script, and a file of each data set."""
    script = {"replies": {"": REPLIES}, "scores": {"": SCORES}}
    (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
    for name, rows in DATA.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


def settings(files, name, *more):
    return [
        f"data={files / name}.json",
        f"model=scripted:{files / 'script.json'}",
        "engine_options={}",
        *SETTINGS,
        *more,
    ]


def records(run):
    return [json.loads(line) for line in (run / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", DATA)
def test_a_study_of_every_data_set(name, files, capsys):
    methods = [method for method in METHODS if name == "icraft" or method != "conformal_pursuit"]
    more = [f"methods=[{', '.join(methods)}]", "limit=2"] + ["num_calibration=2"] * (name == "icraft")
    run = files / "run"
    assert sif("run", f"balar/smollm2_{name}", *settings(files, name, *more), "--run", run) == 0
    out = capsys.readouterr().out
    assert all(method in out for method in methods)
    num_cases = min(2, len(DATA[name]))
    found = records(run)
    assert [(row["method"]) for row in found] == [method for method in methods for _ in range(num_cases)]
    assert all(row["num_asks"] <= 2 and "error" not in row for row in found)
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert summary["num_cases"] == num_cases
    balar = summary["methods"]["balar"]
    assert balar["used"]["agent"]["num_calls"] > 0 and balar["num_asks"] > 0
    assert (balar["used"]["user"]["num_calls"] > 0) is (name != "guessing")
    assert balar["counts"]["num_invalid_replies"] > 0  # the script's blank lines
    assert ("strict_accuracy" in balar) is (name == "situation")
    for figure in ("accuracy.png", "rounds.png"):
        assert (run / figure).read_bytes()[:4] == b"\x89PNG"
    assert "secret is mauve" not in (run / "cases.jsonl").read_text(encoding="utf-8")
    assert sif("run", f"balar/smollm2_{name}", *settings(files, name, *more), "--run", run) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("name", ["icraft", "script"])
def test_an_edited_file_never_gives_an_earlier_summary(name, files):
    arguments = ["run", "balar/smollm2_icraft", *settings(files, "icraft", "methods=[direct]", "limit=1")]
    sif(*arguments, "--run", files / "run")
    file = files / f"{name}.json"
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"the content of {'model' if name == 'script' else 'data'} is"):
        sif(*arguments, "--run", files / "run")


def test_no_two_cases_share_a_trace():
    ids = ["a.b", "a_b", "a/b", "a%b", "a%2Fb", "é", "e", "", " "]
    names = {trace_name("balar", case_id) for case_id in ids}
    assert len(names) == len(ids) and not any("/" in name for name in names)


def test_a_trace_replays_without_a_model(files):
    run = files / "run"
    sif("run", "balar/smollm2_icraft", *settings(files, "icraft", "methods=[balar]", "limit=1"), "--run", run)
    recipe = build(BalarRecipe, load_recipe(str(run / "config.yaml"), [], BalarRecipe))
    steps = [json.loads(line) for line in (run / "traces" / "balar.icraft-0.jsonl").read_text().splitlines()]
    case = load_instances("icraft", files / "icraft.json")[0].case
    replayed = run_case(case, NOBODY, NOBODY, recipe, Trace(steps))
    (record,) = records(run)
    assert replayed.answer == record["answer"] and replayed.last.num_asks == record["num_asks"]
    assert replayed.last.entropy == pytest.approx(record["belief"]["entropy"])


def test_killed_and_resumed_it_is_the_same_study(files):
    more = ["methods=[balar, random_bank, reactive, tree_of_thoughts]", "limit=2", "engine_options={latency: 0.01}"]
    arguments = ["run", "balar/smollm2_icraft", *settings(files, "icraft", *more)]
    sif(*arguments, "--run", files / "whole")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    killed = files / "killed"
    start = [sys.executable, "-m", "sif_trainer.cli.main", "balar", *arguments, "--run", killed]
    for num_cases in (1, 4):
        process = subprocess.Popen(start, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(records(killed) if (killed / "cases.jsonl").exists() else []) < num_cases:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    sif(*arguments, "--run", killed)
    whole, resumed = (json.loads((files / name / "summary.json").read_text()) for name in ("whole", "killed"))

    def without_tokens(summary):
        for row in summary["methods"].values():
            for part in row["used"].values():  # of a call that the kill took, answered from the cache since
                del part["num_prompt_tokens"], part["num_generated_tokens"]
        return summary

    assert without_tokens(resumed) == without_tokens(whole)


class BrokenServer(BaseHTTPRequestHandler):
    """Answers every chat with JSON that ends too early."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": '{"dimensions": [{"reason": '}
        body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        data = json.dumps(body | {"usage": {"prompt_tokens": 9, "completion_tokens": 5}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def test_an_endpoint_that_returns_broken_json_for_ever(files):
    server = ThreadingHTTPServer(("127.0.0.1", 0), BrokenServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        model = [f"model=http://127.0.0.1:{server.server_port}/v1", "engine_options={model: broken}", "max_attempts=2"]
        arguments = [*settings(files, "icraft"), *model, "label_only=false", "methods=[balar]", "limit=6"]
        for _ in range(2):  # called again, it does not go on for ever either
            with pytest.raises(UserError, match=r"none of 3 cases had a usable reply; .* in 2 attempts"):
                sif("run", "balar/smollm2_icraft", *arguments, "--run", files / "run")
    finally:
        server.shutdown()
    found = records(files / "run")
    assert len(found) == 3 and all("no complete JSON" in row["error"] and row["correct"] is False for row in found)
    assert all(row["used"] == {} or "num_invalid_replies" in row["used"]["agent"] for row in found)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["alpha=0"], "alpha is 0.0; it must be above 0 and below 1"),
        (["alpha=1"], "alpha is 1.0"),
        (["beta=0"], "beta is 0.0; it must be above 0 and at most 1"),
        (["beta=1.5"], "beta is 1.5"),
        (["data_set=situation"], "row 1: not a row of AR-Bench situation puzzles; it looks like iCraft-MD"),
        (["data=/no/such/file.json"], "no such file: /no/such/file.json"),
        (["methods=[]"], "methods is empty"),
        (["methods=[direct, balar, direct]"], "name each method once"),
        (
            ["likely=0.2", "unlikely=0.8"],
            "likely 0.2, neutral 0.5 and unlikely 0.8; the weights must fall in this order",
        ),
        (["neutral=0.1"], "the weights must fall"),
        (["likely=0.5", "unlikely=0.5"], "the weights must fall"),
        (["num_calibration=-1"], "num_calibration is -1; it must be 0 or more"),
        (["seed=-1"], "seed is -1; it must be 0 or more"),
        (["limit=0"], "limit is 0; it must be 1 or more"),
        (["limit=-1"], "limit is -1"),
        (["rounds=[5,0]"], r"rounds is \[5, 0\]; each must be 1 or more"),
        (["reason_tokens=-1"], "reason_tokens is -1; it must be 0 or more"),
        (["methods=[balr]"], "no 'balr'; did you mean 'balar'"),
        (["methods=[conformal_pursuit]", "num_calibration=0"], "calibrated on cases behind the limit"),
        (["methods=[conformal_pursuit]", "limit=6", "num_calibration=2"], "no cases behind the limit"),
        (["methods=[conformal_pursuit]", "label_only=false", "limit=2"], "needs label scores"),
        (["engine_options={warp: 9}"], "does not take an option of engine_options"),
        (["max_ask=3"], "unknown key 'max_ask'; did you mean 'max_asks'"),
    ],
)
def test_bad_input_is_one_clear_error(more, message, files):
    with pytest.raises(UserError, match=message):
        sif("run", "balar/smollm2_icraft", *settings(files, "icraft", *more), "--run", files / "run")


def test_a_run_does_not_mix_two_models(files, monkeypatch):
    arguments = ["run", "balar/smollm2_icraft", *settings(files, "icraft", "methods=[direct]", "limit=1")]
    sif(*arguments, "--run", files / "run")
    (files / "run" / "summary.json").unlink()
    monkeypatch.setattr(agents, "load_policy", partial(agents.load_policy, identity="another"))  # as of a new revision
    with pytest.raises(UserError, match=r"began with the models scripted:.*choose another folder"):
        sif(*arguments, "--run", files / "run")


def test_a_prompt_that_is_too_long_fails_its_case_alone(files, monkeypatch):
    from sif_trainer.policy import PromptTooLong
    from sif_trainer.policy.scripted import ScriptedPolicy

    render = ScriptedPolicy._score

    def limited(policy, prompts, labels):
        long = [place for place, prompt in enumerate(prompts) if "Person 1" in policy.render(prompt)]
        if long:
            raise PromptTooLong(long, 100)
        return render(policy, prompts, labels)

    monkeypatch.setattr(ScriptedPolicy, "_score", limited)
    sif(
        "run",
        "balar/smollm2_icraft",
        *settings(files, "icraft", "methods=[direct]", "limit=3"),
        "--run",
        files / "run",
    )
    assert ["error" in row for row in records(files / "run")] == [False, True, False]
    summary = json.loads((files / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["methods"]["direct"]["num_failed"] == 1


def test_bad_stages(tmp_path):
    with pytest.raises(UserError, match="no stage 'rum'; did you mean 'run'"):
        sif("rum")
    with pytest.raises(UserError, match="name a recipe before the settings"):
        sif("run", "limit=2")


def test_a_summary_against_counting():
    def row(method, case, correct, **more):
        return {"method": method, "case": case, "correct": correct, "used": {}, **more}

    solved = {"num_asks": 2, "rounds": "AEA", "ended_by": "certain"}
    used = {
        "agent": {"num_calls": 3, "num_cache_hits": 1, "num_invalid_replies": 2, "num_corrected": 1},
        "user": {"num_calls": 2},
    }
    rows = [
        row("balar", "1", True, **{**solved, "used": used, "earlier": {"1": {"correct": False}}}),
        row("balar", "2", True, **{**solved, "rounds": "A", "num_asks": 1}),
        row("balar", "3", False, error="no reply"),
        row("direct", "1", False, **{**solved, "rounds": "", "num_asks": 0}),
        row("direct", "2", True, **{**solved, "rounds": "", "num_asks": 0}),
        row("direct", "3", False, **{**solved, "rounds": "", "num_asks": 0}),
    ]
    found = summarise(rows, ("balar", "direct"), (1, 5))
    balar = found["methods"]["balar"]
    assert balar["accuracy"]["value"] == pytest.approx(2 / 3)
    assert balar["standard_error"] == pytest.approx((2 / 3 * 1 / 3 / 3) ** 0.5)
    assert balar["accuracy_after"]["1"]["value"] == pytest.approx(1 / 3)
    assert balar["accuracy_after"]["5"]["value"] == pytest.approx(2 / 3)
    assert balar["num_failed"] == 1
    assert balar["counts"] == {"num_corrected": 1, "num_invalid_replies": 2}
    assert (balar["num_asks"], balar["num_expansions"]) == (1.5, 0.5)
    assert balar["asking_by_round"] == [1, 0, 0.5] and balar["expanding_by_round"] == [0, 0.5, 0]
    assert balar["used"]["agent"]["num_calls"] == pytest.approx(4 / 3)
    assert found["methods"]["direct"]["balar_minus_this"]["value"] == pytest.approx(1 / 3)


def test_every_recipe_that_comes_with_the_project_loads():
    names = [name for name in recipe_names() if name.startswith("balar/")]
    assert {"balar/detective", "balar/situation", "balar/icraft", "balar/guessing", "balar/chat"} <= set(names)
    for name in names:
        schema = ChatRecipe if "chat" in name else BalarRecipe
        build(schema, load_recipe(name, [], schema))


def test_the_papers_settings():
    paper = {"detective": (0.3, 5, 10, 4), "situation": (0.3, 5, 10, 2), "icraft": (0.1, 1, 2, 4)}
    for name, (alpha, num_dimensions, num_questions, max_choices) in paper.items():
        recipe = build(BalarRecipe, load_recipe(f"balar/{name}", [], BalarRecipe))
        assert (recipe.alpha, recipe.num_dimensions) == (alpha, num_dimensions)
        assert (recipe.num_questions, recipe.max_choices) == (num_questions, max_choices)
        assert (recipe.max_asks, recipe.max_rounds, recipe.kappa, recipe.answer_mode) == (25, 100, 1.0, "free")
        assert (recipe.max_values, recipe.num_new_questions, recipe.num_uncertain) == (4, 4, 2)
        assert (recipe.temperature, recipe.top_p, recipe.verifier) == (0.1, 1.0, False)
