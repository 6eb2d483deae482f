"""A tiny random Llama with a byte-pair tokenizer of its own, the policy around them, and a server around a policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from sif_trainer.policy import Policy, PromptTooLong, Sampling
from sif_trainer.policy.transformers_engine import TransformersPolicy

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if thinking is false %}<|quiet|>{% endif %}{% endif %}"
)
TEXTS = ["yes no maybe", "the quick brown fox jumps over the lazy dog", "12 + 30 = 42, 7 + 8 = 15", '{"answer": 3}']


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level, so that every string has tokens, with a few merges, so that some words have few."""
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|quiet|>"]
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model.train_from_iterator(
        TEXTS * 3,
        trainers.BpeTrainer(
            vocab_size=320, special_tokens=special, initial_alphabet=alphabet, min_frequency=2, show_progress=False
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<|end|>", pad_token="<|end|>")
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


@pytest.fixture(scope="session")
def model(tiny_llama: Callable[..., Any], tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Random weights, large enough that the next token matters; the end of text is likely enough to be met."""
    model = tiny_llama(tokenizer, max_position_embeddings=96, initializer_range=0.25)
    with torch.no_grad():
        model.lm_head.weight[tokenizer.eos_token_id] *= 2
    return model


@pytest.fixture(scope="session")
def large_heads(tiny_llama: Callable[..., Any], tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Random weights with attention heads as large as vLLM's kernels ask for."""
    sizes = {"hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 2}
    return tiny_llama(tokenizer, max_position_embeddings=256, initializer_range=0.15, **sizes)


@pytest.fixture
def policy(model: Any, tokenizer: Any) -> TransformersPolicy:
    return TransformersPolicy(model, tokenizer, batch_size=4)


@pytest.fixture
def prompts() -> list[Any]:
    """Raw texts and chats of mixed length."""
    return [
        "the quick",
        [{"role": "user", "content": "12 + 30 ="}],
        "the lazy dog jumps over the quick brown fox and",
        [{"role": "system", "content": "yes or no"}, {"role": "user", "content": "maybe?"}],
        "x",
    ]


class OpenAIServer:
    """A small OpenAI-compatible server in a thread, around a policy; `faults` spoil the next answers in turn."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.faults: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.num_now = self.most_at_once = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Be silent."""

            def do_GET(self) -> None:
                answer(self, 200, {"data": [{"id": "tiny"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.bodies.append(body)
                    outer.headers.append(dict(self.headers))
                    fault = outer.faults.pop(0) if outer.faults else None
                    outer.num_now += 1
                    outer.most_at_once = max(outer.most_at_once, outer.num_now)
                try:
                    if fault:
                        fault(self)
                    elif body.get("echo"):
                        answer(self, 200, outer.echo(body))
                    else:
                        outer.complete(self, body)
                finally:
                    with outer.lock:
                        outer.num_now -= 1

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def complete(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        names = ("temperature", "top_p", "top_k", "max_tokens", "seed")
        sampling = Sampling(stop=tuple(body.get("stop", ())), **{name: body[name] for name in names if name in body})
        prompt = body.get("messages", body.get("prompt"))
        if "messages" not in body:
            prompt = self.text(prompt)
        with self.lock:
            try:
                sample = self.policy.generate([prompt], sampling=sampling)[0][0]
            except PromptTooLong as error:
                message = f"This model's maximum context length is {error.limit} tokens."
                return answer(handler, 400, {"error": {"message": message}})
        choice: dict[str, Any] = {"finish_reason": sample.finish_reason}
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": sample.text}
        else:
            choice["text"] = sample.text
        if body.get("top_logprobs"):
            choice["logprobs"] = {"content": [{"top_logprobs": self.likely(prompt, body["top_logprobs"])}]}
        usage = {"completion_tokens": sample.num_tokens, "prompt_tokens": len(self.policy.render(prompt).split())}
        return answer(handler, 200, {"choices": [choice], "usage": usage})

    def text(self, prompt: str | list[int]) -> str:
        return prompt if isinstance(prompt, str) else self.policy.encoder.tokenizer.decode(prompt)

    def logits(self, ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return self.policy.model(torch.tensor([ids])).logits[0].log_softmax(-1)

    def echo(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt, tokenizer = body["prompt"], self.policy.encoder.tokenizer
        ids = prompt if isinstance(prompt, list) else tokenizer.encode(prompt)
        log_p = self.logits(ids)
        found = [None, *(log_p[place, token].item() for place, token in enumerate(ids[1:]))]
        offsets = [len(tokenizer.decode(ids[:place])) for place in range(len(ids))]
        generated = {"token_logprobs": [*found, -9.0], "text_offset": [*offsets, len(tokenizer.decode(ids))]}
        return {"choices": [{"text": "", "logprobs": generated, "finish_reason": "length"}]}

    def likely(self, prompt: Any, count: int) -> list[dict[str, Any]]:
        top = self.logits(self.policy.encoder.encode(prompt))[-1].topk(count)
        tokens = [self.policy.encoder.tokenizer.decode([token]) for token in top.indices.tolist()]
        return [{"token": token, "logprob": p} for token, p in zip(tokens, top.values.tolist(), strict=True)]


def answer(handler: BaseHTTPRequestHandler, status: int, content: Any, **headers: str) -> None:
    """Send JSON, or text that is not JSON."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content.encode() if isinstance(content, str) else json.dumps(content).encode())


@pytest.fixture
def serve() -> Iterator[Callable[[Policy], OpenAIServer]]:
    """`serve(policy)` starts a server; all are stopped after the test."""
    servers: list[OpenAIServer] = []

    def start(policy: Policy) -> OpenAIServer:
        servers.append(OpenAIServer(policy))
        return servers[-1]

    yield start
    for server in servers:
        server.http.shutdown()
        server.http.server_close()
