from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.policy import PromptTooLong, Sampling
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.policy.structured import parse
from sif_trainer.runs.errors import UserError

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "why": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
GOOD = '{"answer": 3}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Sure! Here it is:\n```\n{GOOD}\n```\nAnything else?",
        f'<think>maybe {{"answer": 1}}?</think>{GOOD}',
        f"The answer is {GOOD}, I think.",
        '{"answer": 3,}',
        'Well: { "answer" : 3 , } done',
        f"[1, 2] or rather {GOOD}",
        f'{{"answer": "three"}} no, {GOOD}',
        f"{{{{ not json {GOOD}",
    ],
)
def test_json_is_found_in(text):
    assert parse(text, SCHEMA) == ({"answer": 3}, None)


def test_strings_keep_their_line_breaks_and_commas():
    assert parse('{"answer": 1, "why": "a,]\nb,}", }', SCHEMA) == ({"answer": 1, "why": "a,]\nb,}"}, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no complete JSON"),
        ("no idea", "no complete JSON"),
        ('{"answer": 3', "no complete JSON"),
        ('{"answer": NaN}', "no complete JSON"),
        ('{"answer": 1e999}', "no complete JSON"),
        ('{"answer": "3"}', r"\$\.answer: '3' is not of type 'integer'"),
        ('{"why": "because"}', "'answer' is a required property"),
        ("[" * 100_000, "no complete JSON"),
        ('{"a":' * 100_000, "no complete JSON"),
        ('"' * 100_000, "no complete JSON"),
        ("9" * 100_000, "no complete JSON"),
    ],
)
def test_what_does_not_fit_is_named(text, message):
    value, error = parse(text, SCHEMA)
    assert value is None
    assert re.search(message, error)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text):
    value, error = parse(text, SCHEMA)
    assert (value is None) == (error is not None)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=8), st.data()
)
def test_any_object_is_found_between_prose(value, data):
    prose = st.text(alphabet="abc .,:\n", max_size=20)
    text = data.draw(prose) + json.dumps({"value": value}) + data.draw(prose)
    assert parse(text, {"type": "object", "required": ["value"]}) == ({"value": value}, None)


def test_a_bad_answer_is_repaired_then_asked_afresh():
    seen = []

    def answer(text, number):
        seen.append((text, number))
        return ["no idea", '{"answer": "x"}', GOOD][number]

    policy = ScriptedPolicy(answer)
    reply = policy.reply(["How many?"], SCHEMA)[0]
    assert (reply.value, reply.raw, reply.num_attempts, reply.error) == ({"answer": 3}, GOOD, 3, None)
    assert [number for _, number in seen] == [0, 1, 2]
    first, repair, afresh = (text for text, _ in seen)
    assert json.dumps(SCHEMA) in first
    assert repair.startswith(first) and "no idea" in repair and "no complete JSON" in repair
    assert afresh == first
    assert policy.counters.num_invalid_replies == 2
    assert policy.counters.num_calls == 3


def test_a_chat_is_repaired_in_turns():
    prompts = []

    class Remembering(ScriptedPolicy):
        def render(self, prompt):
            prompts.append(prompt)
            return super().render(prompt)

    policy = Remembering(lambda text, number: "no" if number == 0 else GOOD)
    chat = [{"role": "user", "content": "How many?"}]
    assert policy.reply([chat], SCHEMA, show_schema=False)[0].num_attempts == 2
    assert prompts[0] == chat
    assert [message["role"] for message in prompts[1]] == ["user", "assistant", "user"]


def test_greedy_attempts_are_all_repairs():
    texts = []
    policy = ScriptedPolicy(lambda text, number: texts.append(text) or "no")
    assert policy.reply(["x"], SCHEMA, Sampling(temperature=0), max_attempts=4)[0].value is None
    assert len(set(texts)) == 2  # the question, and its repair after the same answer
    assert texts[1] == texts[2] == texts[3]


def test_only_open_questions_are_asked_again_and_in_one_batch():
    batches = []

    class Counting(ScriptedPolicy):
        def _stream(self, requests, sampling, schema):
            batches.append(len(requests))
            return super()._stream(requests, sampling, schema)

    policy = Counting({"not valid": "still no", "good": GOOD, "": "no"})
    replies = policy.reply(["good 1", "bad", "good 2"], SCHEMA, show_schema=False)
    assert [reply.value for reply in replies] == [{"answer": 3}, None, {"answer": 3}]
    assert [reply.num_attempts for reply in replies] == [1, 3, 1]
    assert replies[1].raw == "no" and "no complete JSON" in replies[1].error
    assert batches == [3, 1, 1]
    assert policy.counters.num_invalid_replies == 3


def test_a_cut_off_answer_says_so():
    policy = ScriptedPolicy({"": '{"answer": 3, "why": "because of this and that"}'})
    reply = policy.reply(["x"], SCHEMA, Sampling(max_tokens=4), max_attempts=1)[0]
    assert reply.value is None and reply.error.startswith("the answer was cut off after 4 tokens")


def test_a_repair_beyond_the_context_is_asked_afresh():
    class Short(ScriptedPolicy):
        def _stream(self, requests, sampling, schema):
            too_long = [place for place, request in enumerate(requests) if "not valid" in request.text]
            if too_long:
                raise PromptTooLong(too_long, limit=10)
            return super()._stream(requests, sampling, schema)

    policy = Short(lambda text, number: "no" if number == 0 else GOOD)
    assert [reply.value for reply in policy.reply(["a", "b"], SCHEMA)] == [{"answer": 3}] * 2

    class Tiny(ScriptedPolicy):
        def _stream(self, requests, sampling, schema):
            raise PromptTooLong([1], limit=10)

    with pytest.raises(PromptTooLong):
        Tiny().reply(["a", "b"], SCHEMA)


def test_impossible_requests_are_refused(policy):
    with pytest.raises(UserError, match="schema"):
        policy.reply(["x"], {"type": "objekt"})
    with pytest.raises(UserError, match="max_attempts is 0"):
        policy.reply(["x"], SCHEMA, max_attempts=0)


def test_a_random_model_gives_counted_failures(policy, prompts):
    policy.context = None
    replies = policy.reply(prompts, SCHEMA, Sampling(max_tokens=8), show_schema=False)
    assert all(reply.value is None and reply.error and reply.num_attempts == 3 for reply in replies)
    assert policy.counters.num_invalid_replies == 15
