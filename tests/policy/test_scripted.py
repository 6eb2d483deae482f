from __future__ import annotations

import json

import pytest

from sif_trainer.policy import Sampling, load_policy
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError


def test_a_key_answers_what_contains_it():
    policy = ScriptedPolicy({"France": ["Paris", "Lyon"], "": "I don't know"})
    chat = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Capital of France?"}]
    assert [sample.text for sample in policy.generate([chat], n=3)[0]] == ["Paris", "Lyon", "Paris"]
    assert policy.generate(["Capital of Peru?"])[0][0].text == "I don't know"
    assert policy.counters.num_calls == 4
    assert policy.counters.num_generated_tokens == 6


def test_a_function_answers():
    policy = ScriptedPolicy(lambda text, number: f"{text} {number}", lambda text, label: -float(len(label)))
    assert [sample.text for sample in policy.generate(["a"], n=2)[0]] == ["a 0", "a 1"]
    assert policy.score(["x", "y"], ["yes", "no"]) == [[-3.0, -2.0], [-3.0, -2.0]]


def test_stop_strings_and_the_limit():
    policy = ScriptedPolicy({"": "one two three. four"})
    assert policy.generate(["x"], sampling=Sampling(stop=(".", "two")))[0][0].text == "one "
    sample = policy.generate(["x"], sampling=Sampling(max_tokens=2))[0][0]
    assert (sample.text, sample.num_tokens, sample.finish_reason) == ("one two", 2, "length")


def test_a_script_file(tmp_path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": {"": "hello"}, "scores": {"sky": {"blue": -0.1, "green": -3}}}))
    policy = load_policy(f"scripted:{path}")
    assert policy.generate(["x"])[0][0].text == "hello"
    assert policy.score(["the sky"], ["green", "blue"]) == [[-3, -0.1]]
    with pytest.raises(UserError, match="no scores for the prompt 'grass'"):
        policy.score(["grass"], ["green"])
    for content in ("{", "[]", None):
        bad = tmp_path / "bad.json"
        if content is not None:
            bad.write_text(content)
        with pytest.raises(UserError, match="cannot read a script"):
            load_policy(f"scripted:{bad if content else tmp_path / 'missing.json'}")


def test_a_prompt_without_a_reply_is_named():
    with pytest.raises(UserError, match="no reply for the prompt 'what"):
        ScriptedPolicy({"France": "Paris"}).generate(["what now"])


def test_a_label_that_the_script_does_not_score_is_named():
    with pytest.raises(UserError, match="no score for the label 'maybe'"):
        ScriptedPolicy(scores={"": {"yes": -1.0}}).score(["x"], ["yes", "maybe"])
