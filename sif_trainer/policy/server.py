"""The server engine: any OpenAI-compatible endpoint over HTTP, from `vllm serve` to a hosted model.

    load_policy("http://localhost:8000/v1", model="Qwen/Qwen3-1.7B")
    load_policy("http://localhost:8000/v1", tokenizer="Qwen/Qwen3-1.7B")      # exact prompts and label scores

Chat messages go to /chat/completions and raw text to /completions. With `tokenizer=`, prompts are rendered and
tokenised here and sent to /completions as token ids, which vLLM and most open servers accept; then scores of labels
are exact, token by token.

`score` reads the log-probabilities that /completions echoes. Where there is no tokenizer, a label's tokens are those
that the server puts after the prompt's text; chats can be scored for labels of one token among the server's most
likely ones. Servers give no logits, so there is no certainty. Seeds are sent; whether they are honoured is the
server's affair.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, TypeVar

from sif_trainer.policy.encoder import PromptEncoder
from sif_trainer.policy.http_json import Endpoint, Refused
from sif_trainer.policy.policy import Policy, Prompt, PromptTooLong, Request, Sample, Sampling, Schema, digest
from sif_trainer.runs.errors import UserError

T = TypeVar("T")
NUM_TOP_LOGPROBS = 20
"""The most that the OpenAI protocol allows."""


class ServerPolicy(Policy):
    """A model behind an OpenAI-compatible endpoint. Safe to call from several threads."""

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        tokenizer: Any = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        constrains_json: bool = True,
        extra_body: Mapping[str, Any] | None = None,
        max_in_flight: int = 32,
        api_key_env: str = "OPENAI_API_KEY",
        timeout: float = 600.0,
        max_retries: int = 5,
        pause: float = 1.0,
    ) -> None:
        """`model` may be left out where the server has one. `tokenizer` is an object, a path or a hub id.

        `constrains_json=False` is for servers that do not know `response_format`; `extra_body` is added to every
        request. The last four are explained in `Endpoint`.
        """
        super().__init__()
        base = url.rstrip("/")
        self.endpoint = Endpoint(
            base if base.endswith("/v1") else f"{base}/v1",
            api_key_env=api_key_env,
            timeout=timeout,
            max_retries=max_retries,
            pause=pause,
            on_retry=lambda: self.counters.add(num_retries=1),
        )
        self.model = model or self._only_model()
        if isinstance(tokenizer, str):
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        self.encoder = None if tokenizer is None else PromptEncoder(tokenizer, chat_template, chat_template_kwargs)
        self.chat_template_kwargs = dict(chat_template_kwargs or {})
        self.constrains_json = constrains_json
        self.extra_body = dict(extra_body or {})
        self.max_in_flight = max_in_flight
        settings = [chat_template, self.chat_template_kwargs, self.extra_body, constrains_json, tokenizer is None]
        self.identity = f"server:{self.endpoint.url}:{self.model}:{digest(settings)[:16]}"

    def render(self, prompt: Prompt) -> str:
        """Return the prompt's text; without a tokenizer, a chat's messages as JSON, since the server renders them."""
        if self.encoder:
            return self.encoder.render(prompt)
        return prompt if isinstance(prompt, str) else json.dumps(list(prompt), ensure_ascii=False)

    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        if self.encoder is None:
            raise UserError("a server does not tell the tokens of a label; give the policy tokenizer=... as well")
        return self.encoder.label_tokens(labels)

    def _stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        if sampling.measures_certainty:
            raise UserError("a server gives no logits, so there is no certainty; use the transformers engine for it")
        wanted = {place: request for place, request in enumerate(requests) if request.wanted}
        jobs = {place: partial(self._sample, request, sampling, schema) for place, request in wanted.items()}
        for place, (sample, num_prompt_tokens) in self._in_flight(jobs):
            self.counters.add(num_prompt_tokens=num_prompt_tokens)
            yield place, sample

    def _score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        ids = [None] * len(labels) if self.encoder is None else self.label_tokens(labels)

        def row(prompt: Prompt) -> list[float]:
            if self.encoder is None and not isinstance(prompt, str):
                return self._first_token(prompt, labels)
            return [self._echo(prompt, label, label_ids) for label, label_ids in zip(labels, ids, strict=True)]

        rows = dict(self._in_flight({place: partial(row, prompt) for place, prompt in enumerate(prompts)}))
        return [rows[place] for place in range(len(prompts))]

    def _sample(self, request: Request, sampling: Sampling, schema: Schema | None) -> tuple[Sample, int]:
        """Draw one sample; return it with the number of the prompt's tokens."""
        path, question = self._question(request.prompt)
        body: dict[str, Any] = {
            **question,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
        }
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if schema is not None and self.constrains_json:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}

        def read(answer: Any) -> tuple[Sample, int]:
            choice, usage = answer["choices"][0], answer["usage"]
            text = choice["text"] if "text" in choice else choice["message"]["content"] or ""
            reason = "length" if choice["finish_reason"] == "length" else "stop"
            return Sample(str(text), int(usage["completion_tokens"]), reason), int(usage["prompt_tokens"])

        return self._post(path, body, read)

    def _echo(self, prompt: Prompt, label: str, label_ids: tuple[int, ...] | None) -> float:
        """Score one label by having the prompt and the label echoed with log-probabilities."""
        question: str | list[int]
        if self.encoder is not None and label_ids is not None:
            ids = self.encoder.encode(prompt)
            question, start, end = [*ids, *label_ids], len(ids), len(ids) + len(label_ids)
        else:
            question, start, end = f"{prompt}{label}", len(prompt), len(prompt) + len(label)
        body = {"prompt": question, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}

        def read(answer: Any) -> float:
            found = answer["choices"][0]["logprobs"]
            if found is None or len(found["token_logprobs"]) < 2:
                raise UserError(
                    f"the server at {self.endpoint.url} does not echo log-probabilities, so it cannot score labels"
                )
            offsets = range(end) if label_ids is not None else found["text_offset"]
            if start not in offsets:
                raise UserError(
                    f"the server joins the label {label!r} and the end of the prompt in one token; give tokenizer=... "
                    "to score it on its own"
                )
            chosen = [p for p, offset in zip(found["token_logprobs"], offsets, strict=False) if start <= offset < end]
            return math.fsum(chosen)

        return self._post("/completions", body, read)

    def _first_token(self, prompt: Prompt, labels: Sequence[str]) -> list[float]:
        """Read one-token labels off the most likely first tokens of a chat's answer."""
        path, question = self._question(prompt)
        body = {**question, "max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": NUM_TOP_LOGPROBS}

        def read(answer: Any) -> list[float]:
            first = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            likely = {entry["token"]: float(entry["logprob"]) for entry in first}
            for label in labels:
                if label not in likely:
                    raise UserError(
                        f"the label {label!r} is not among the server's {len(likely)} most likely first tokens; "
                        "give tokenizer=... to score it"
                    )
            return [likely[label] for label in labels]

        return self._post(path, body, read)

    def _question(self, prompt: Prompt) -> tuple[str, dict[str, Any]]:
        """Return the path and the part of the body that holds the prompt."""
        if self.encoder is not None:
            return "/completions", {"prompt": self.encoder.encode(prompt)}
        if isinstance(prompt, str):
            return "/completions", {"prompt": prompt}
        body: dict[str, Any] = {"messages": list(prompt)}
        if self.chat_template_kwargs:
            body["chat_template_kwargs"] = self.chat_template_kwargs
        return "/chat/completions", body

    def _post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """Send a body and read the answer; a refusal for length becomes `PromptTooLong` (numbered by `_in_flight`)."""
        try:
            return self.endpoint.post(path, {"model": self.model, **body, **self.extra_body}, read)
        except Refused as error:
            if error.status in (400, 413, 422) and re.search(r"context (length|window)|too long", error.message, re.I):
                raise PromptTooLong([0], reason=error.message[:300]) from None
            raise

    def _in_flight(self, jobs: Mapping[int, Callable[[], T]]) -> Iterator[tuple[int, T]]:
        """Run jobs, `max_in_flight` at once, and yield (place, result) as they finish.

        After a failure no further job starts, but those in flight are still yielded before it is raised. Prompts that
        are too long stop nothing, and are raised together at the end.
        """
        failure: BaseException | None = None
        too_long: dict[int, str] = {}
        with ThreadPoolExecutor(self.max_in_flight) as pool:
            futures: dict[Future[T], int] = {pool.submit(job): place for place, job in jobs.items()}
            try:
                for future in as_completed(futures):
                    if future.cancelled():
                        continue
                    error = future.exception()
                    if error is None:
                        yield futures[future], future.result()
                    elif isinstance(error, PromptTooLong):
                        too_long[futures[future]] = error.reason
                    elif failure is None:
                        failure = error
                        for waiting in futures:
                            waiting.cancel()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        if failure is not None:
            raise failure
        if too_long:
            raise PromptTooLong(too_long, reason=next(iter(too_long.values())))

    def _only_model(self) -> str:
        """Return the name of the model that the server offers, if it is one."""
        names = self.endpoint.get("/models", lambda answer: [str(entry["id"]) for entry in answer["data"]])
        if len(names) != 1:
            raise UserError(
                f"the server at {self.endpoint.url} offers {', '.join(names) or 'no model'}; give model=..."
            )
        return names[0]
