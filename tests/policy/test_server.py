from __future__ import annotations

import json
import socket
import time

import pytest

from sif_trainer.policy import PromptTooLong, Sampling, load_policy
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError

SAMPLING = Sampling(temperature=0, max_tokens=12)
CHAT = [{"role": "user", "content": "12 + 30 ="}]


def connect(server, **options):
    return load_policy(server.url, **{"pause": 0.01, "timeout": 20.0, **options})


def fail(status, content, **headers):
    text = content if isinstance(content, str) else json.dumps(content)

    def fault(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(text.encode())

    return fault


def hang(handler):
    time.sleep(1.0)


def hang_up(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def test_answers_are_those_of_the_model_behind(serve, policy, prompts):
    server = serve(policy)
    remote = connect(server)
    assert remote.model == "tiny"
    answers = remote.generate(prompts, sampling=SAMPLING)
    local = policy.generate(prompts, sampling=SAMPLING)
    for (sample,), (expected,) in zip(answers, local, strict=True):
        assert sample.text == expected.text
        assert (sample.num_tokens, sample.finish_reason) == (expected.num_tokens, expected.finish_reason)
    assert remote.counters.num_calls == 5
    assert remote.counters.num_generated_tokens == sum(sample.num_tokens for (sample,) in local)
    assert remote.counters.num_prompt_tokens > 0


def test_with_a_tokenizer_token_ids_are_sent(serve, policy, tokenizer, prompts):
    server = serve(policy)
    remote = connect(server, tokenizer=tokenizer)
    answers = remote.generate(prompts, sampling=SAMPLING)
    assert [s.text for (s,) in answers] == [s.text for (s,) in policy.generate(prompts, sampling=SAMPLING)]
    assert {tuple(body["prompt"]) for body in server.bodies} == {tuple(policy.encoder.encode(p)) for p in prompts}
    assert remote.render(CHAT) == policy.render(CHAT)


def test_the_body_says_what_was_asked(serve):
    server = serve(ScriptedPolicy({"": "hello"}))
    remote = connect(server, chat_template_kwargs={"enable_thinking": False}, extra_body={"min_p": 0.1})
    sampling = Sampling(temperature=0.6, top_p=0.9, top_k=5, max_tokens=7, stop=("a", "b"), seed=4)
    remote.generate([CHAT], n=3, sampling=sampling)
    remote.generate(["raw"], sampling=SAMPLING)
    body = server.bodies[0]
    assert body["messages"] == CHAT
    assert [body[name] for name in ("model", "temperature", "top_p", "top_k", "max_tokens", "stop", "min_p")] == [
        "tiny", 0.6, 0.9, 5, 7, ["a", "b"], 0.1
    ]  # fmt: skip
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert len({body["seed"] for body in server.bodies[:3]}) == 3, "each sample has a seed of its own"
    assert server.bodies[3]["prompt"] == "raw"
    assert "stop" not in server.bodies[3] and "top_k" not in server.bodies[3], "hosted models refuse unknown fields"


@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_scores_by_echo_equal_our_own(serve, policy, tokenizer, with_tokenizer):
    remote = connect(serve(policy), tokenizer=tokenizer if with_tokenizer else None)
    labels = ["no", "12 + 30 = 42", " yes"]
    prompts = ["the quick?", "maybe:"]
    expected = policy.score(prompts, labels)
    for row, expected_row in zip(remote.score(prompts, labels), expected, strict=True):
        assert row == pytest.approx(expected_row, abs=1e-4)
    if with_tokenizer:
        assert remote.label_tokens(labels) == policy.label_tokens(labels)
        assert remote.score([CHAT], labels)[0] == pytest.approx(policy.score([CHAT], labels)[0], abs=1e-4)
    else:
        with pytest.raises(UserError, match="tokenizer="):
            remote.label_tokens(labels)


def test_a_label_that_joins_the_prompt_is_refused(serve, policy):
    with pytest.raises(UserError, match="joins the label 'es'"):
        connect(serve(policy)).score(["y"], ["es"])


def test_one_token_labels_of_a_chat_are_read_off_the_top(serve, policy):
    server = serve(policy)
    likely = [entry["token"] for entry in server.likely(CHAT, 20)]
    labels = [token for token in likely if likely.count(token) == 1][:3]
    ids = [policy.encoder.label_tokens([label])[0] for label in labels]
    labels = [label for label, tokens in zip(labels, ids, strict=True) if len(tokens) == 1]
    assert labels
    remote = connect(server)
    assert remote.score([CHAT], labels)[0] == pytest.approx(policy.score([CHAT], labels)[0], abs=1e-4)
    assert len(server.bodies) == 1
    with pytest.raises(UserError, match="'a label like no other' is not among"):
        remote.score([CHAT], ["a label like no other"])


def test_a_server_without_echo_says_so(serve, policy):
    server = serve(policy)
    server.faults = [fail(200, {"choices": [{"text": "x", "logprobs": None}]})]
    with pytest.raises(UserError, match="does not echo"):
        connect(server).score(["x"], ["yes"])


def test_schemas_are_sent_to_the_server(serve):
    schema = {"type": "object", "required": ["a"]}
    server = serve(ScriptedPolicy({"": '{"a": 1}'}))
    assert connect(server).reply([CHAT], schema)[0].value == {"a": 1}
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == schema
    assert connect(server, constrains_json=False).reply([CHAT], schema)[0].value == {"a": 1}
    assert "response_format" not in server.bodies[1]


@pytest.mark.parametrize(
    "faults",
    [
        [fail(500, "oops"), fail(503, {"error": {"message": "warming up"}})],
        [fail(429, {"message": "slow down"}, Retry_After="0")],
        [fail(200, "<html>not json</html>"), fail(200, "[]"), fail(200, {"choices": []})],
        [fail(200, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]})],  # no usage
        [fail(200, ""), hang_up],
    ],
    ids=["5xx", "429", "nonsense", "missing field", "cut off"],
)
def test_passing_trouble_is_overcome(serve, faults):
    server = serve(ScriptedPolicy({"": "hello"}))
    server.faults = list(faults)
    remote = connect(server)
    assert remote.generate([CHAT], sampling=SAMPLING)[0][0].text == "hello"
    assert remote.counters.num_retries == len(faults)


def test_a_slow_server_is_given_up(serve):
    server = serve(ScriptedPolicy({"": "hello"}))
    server.faults = [hang] * 2
    with pytest.raises(UserError, match=r"after 2 attempts.*timed out"):
        connect(server, timeout=0.2, max_retries=1).generate([CHAT])


def test_lasting_nonsense_is_named(serve):
    server = serve(ScriptedPolicy({"": "hello"}))
    server.faults = [fail(200, "<html>")] * 3
    with pytest.raises(UserError, match=r"after 3 attempts.*<html>.*protocol"):
        connect(server, max_retries=2).generate([CHAT])


def test_a_server_that_is_down_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UserError, match=f"127.0.0.1:{port}/v1/models after 2 attempts.*check that the server runs"):
        load_policy(f"http://127.0.0.1:{port}", max_retries=1, pause=0.01)


def test_a_refusal_is_not_repeated(serve):
    server = serve(ScriptedPolicy({"": "hello"}))
    server.faults = [fail(404, {"error": {"message": "no such model"}}), fail(401, {"error": {"message": "bad key"}})]
    remote = connect(server)
    with pytest.raises(UserError, match="status 404: no such model"):
        remote.generate([CHAT])
    with pytest.raises(UserError, match=r"bad key.*environment variable OPENAI_API_KEY"):
        remote.generate([CHAT])
    assert remote.counters.num_retries == 0


def test_finished_samples_come_before_the_failure(serve):
    server = serve(ScriptedPolicy({"": "hello"}))
    remote = connect(server, max_retries=0, max_in_flight=1)
    done = []
    with pytest.raises(UserError, match="status 500"):
        for place, _, sample in remote.stream([f"prompt {number}" for number in range(9)], 1, SAMPLING):
            done.append((place, sample.text))
            if len(done) == 4:
                server.faults = [fail(500, "oops")]
    assert len(done) >= 4
    assert len(server.bodies) < 9, "no further request starts after a failure"


def test_prompts_that_are_too_long_are_numbered(serve, policy):
    remote = connect(serve(policy))
    with pytest.raises(PromptTooLong, match="maximum context length") as caught:
        remote.generate(["x", "y" * 400, "x", "z" * 400], n=2, sampling=SAMPLING)
    assert caught.value.indices == (1, 3)


def test_requests_are_in_flight_together(serve):
    server = serve(ScriptedPolicy({"": "hello"}))
    server.faults = [lambda handler: (time.sleep(0.3), fail(500, "again")(handler))] * 6
    connect(server, max_in_flight=6).generate([f"{number}" for number in range(6)], sampling=SAMPLING)
    assert 2 <= server.most_at_once <= 6
    other = serve(ScriptedPolicy({"": "hello"}))
    connect(other, max_in_flight=1).generate([f"{number}" for number in range(6)], sampling=SAMPLING)
    assert other.most_at_once == 1


def test_the_key_comes_from_the_environment_and_is_never_shown(serve, monkeypatch):
    monkeypatch.setenv("MY_KEY", "very-secret")
    server = serve(ScriptedPolicy({"": "hello"}))
    remote = connect(server, api_key_env="MY_KEY", max_retries=0)
    remote.generate([CHAT])
    assert server.headers[0]["Authorization"] == "Bearer very-secret"
    server.faults = [fail(500, "oops")]
    with pytest.raises(UserError) as caught:
        remote.generate([CHAT])
    assert "very-secret" not in str(caught.value) + remote.identity + str(vars(remote))
    monkeypatch.delenv("MY_KEY")
    remote.generate([CHAT])
    assert "Authorization" not in server.headers[-1]


def test_certainty_is_refused(serve):
    with pytest.raises(UserError, match="no logits"):
        connect(serve(ScriptedPolicy({"": "hello"}))).generate([CHAT], sampling=Sampling(certainty=True))
