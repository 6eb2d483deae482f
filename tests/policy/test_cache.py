from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from sif_trainer.policy import CachedPolicy, PromptTooLong, Sampling
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.runs.errors import UserError


def echo(**options):
    return ScriptedPolicy(
        lambda text, number: f"{text} {number}", lambda text, label: -1.0, identity="echo", **options
    )


def test_what_was_answered_is_not_asked_again(tmp_path):
    first = CachedPolicy(echo(), tmp_path / "answers.sqlite")
    answers = first.generate(["a", "b"], n=2)
    assert first.counters.num_calls == 4
    again = CachedPolicy(echo(), tmp_path / "answers.sqlite")
    assert again.generate(["a", "b"], n=2) == answers
    assert (again.counters.num_calls, again.counters.num_cache_hits, again.counters.num_generated_tokens) == (0, 4, 0)
    assert again.generate(["b", "c"], n=3)[0][:2] == answers[1]
    assert (again.counters.num_calls, again.counters.num_cache_hits) == (4, 6)


@pytest.mark.parametrize("change", [{"temperature": 0.5}, {"seed": 1}, {"max_tokens": 5}, {"stop": (".",)}])
def test_another_sampling_is_another_question(tmp_path, change):
    policy = CachedPolicy(echo(), tmp_path / "answers.sqlite")
    policy.generate(["a"])
    policy.generate(["a"], sampling=Sampling(**change))
    assert policy.counters.num_cache_hits == 0


def test_raw_text_and_a_chat_that_renders_alike_differ(tmp_path):
    policy = CachedPolicy(echo(), tmp_path / "answers.sqlite")
    policy.generate(["a"])
    policy.generate([[{"role": "user", "content": "a"}]])
    assert policy.counters.num_cache_hits == 0


def test_scores_and_replies_are_kept(tmp_path):
    policy = CachedPolicy(ScriptedPolicy({"": "{}"}, {"": {"yes": -1, "no": -2}}), tmp_path / "answers.sqlite")
    assert policy.score(["a", "b"], ["yes", "no"]) == [[-1, -2]] * 2
    assert policy.score(["b", "c", "c"], ["yes", "no"]) == [[-1, -2]] * 3
    assert (policy.counters.num_calls, policy.counters.num_cache_hits) == (3, 1)
    assert policy.score(["a"], ["no", "yes"]) == [[-2, -1]]
    assert (policy.counters.num_calls, policy.counters.num_cache_hits) == (4, 1)
    for _ in range(2):
        assert policy.reply(["a"], {"type": "object"})[0].value == {}
    assert (policy.counters.num_calls, policy.counters.num_cache_hits) == (5, 2)


def test_samples_come_back_whole(tmp_path, model, tokenizer, prompts):
    def cached():
        inner = TransformersPolicy(model, tokenizer, identity="tiny", batch_size=3)
        return CachedPolicy(inner, tmp_path / "answers.sqlite")

    sampling = Sampling(max_tokens=12, certainty=True)
    answers = cached().generate(prompts, n=2, sampling=sampling)
    again = cached()
    assert again.generate(prompts, n=2, sampling=sampling) == answers
    assert again.counters.num_prompt_tokens == 0
    skip = [(place, 0) for place in range(5)]
    assert {pair[:2] for pair in again.stream(prompts, 2, sampling, skip=skip)} == {(place, 1) for place in range(5)}


def test_too_long_prompts_keep_their_numbers(tmp_path, model, tokenizer):
    inner = TransformersPolicy(model, tokenizer, identity="tiny", max_input_tokens=12)
    policy = CachedPolicy(inner, tmp_path / "answers.sqlite")
    policy.score(["x", "y"], ["yes", "no"])
    with pytest.raises(PromptTooLong) as caught:
        policy.score(["x", "y" * 50, "y", "z" * 50], ["yes", "no"])
    assert caught.value.indices == (1, 3)
    policy.generate(["x"])
    with pytest.raises(PromptTooLong) as caught:
        policy.generate(["x", "y" * 50], n=3)
    assert caught.value.indices == (1,)


def test_a_kill_loses_no_answer(tmp_path):
    program = f"""
import os, signal
from sif_trainer.policy import CachedPolicy
from sif_trainer.policy.scripted import ScriptedPolicy
echo = ScriptedPolicy(lambda text, number: f"{{text}} {{number}}", identity="echo")
policy = CachedPolicy(echo, r"{tmp_path}/a.sqlite")
for count, _ in enumerate(policy.stream(["a"], 10)):
    if count == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert killed.returncode == -signal.SIGKILL
    policy = CachedPolicy(echo(), tmp_path / "a.sqlite")
    assert [sample.text for sample in policy.generate(["a"], n=10)[0]] == [f"a {number}" for number in range(10)]
    assert (policy.counters.num_cache_hits, policy.counters.num_calls) == (6, 4)


def test_threads_may_share_a_cache(tmp_path):
    policy = CachedPolicy(echo(), tmp_path / "answers.sqlite")
    threads = [threading.Thread(target=policy.generate, args=([f"t{number}"], 20)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert policy.counters.num_calls == 160
    policy.generate([f"t{number}" for number in range(8)], 20)
    assert (policy.counters.num_calls, policy.counters.num_cache_hits) == (160, 160)


def test_a_live_model_and_a_wrong_file_are_refused(tmp_path, policy):
    with pytest.raises(UserError, match="live model"):
        CachedPolicy(policy, tmp_path / "answers.sqlite")
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(UserError, match=r"notes\.txt.*not a database"):
        CachedPolicy(echo(), tmp_path / "notes.txt")
