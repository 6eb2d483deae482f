"""What every engine promises: the types and the base class of the decision model.

Exercise it with `load_policy("scripted:replies.json").generate(["hello"], n=2)`; `docs/policy.md` shows all verbs.
An engine implements `render`, `label_tokens`, `_stream` and `_score`; planning, seeds, counting and the repair of
structured replies are written once, here and in `structured.py`.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from sif_trainer.runs.errors import UserError

Message: TypeAlias = Mapping[str, str]
Prompt: TypeAlias = str | Sequence[Message]
"""Raw text, sent as it is, or chat messages, which go through the chat template."""

Schema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Windows:
    """Settings of a ranked profile: K windows of `window_size` tokens whose starts are at least `min_stride` apart."""

    num_windows: int = 10
    window_size: int = 100
    min_stride: int = 50

    def __post_init__(self) -> None:
        if self.num_windows < 1 or self.window_size < 1 or self.min_stride < 0:
            raise UserError(
                f"windows ({self.num_windows}, {self.window_size}, {self.min_stride}): their number and size must be "
                "at least 1, and the distance of their starts at least 0"
            )


@dataclass(frozen=True)
class Sampling:
    """How to draw a sample. Nothing is taken from a model's own generation config but its end-of-text tokens.

    `temperature=0` is greedy; `top_k=0` and `top_p=1` are off; `top_k` acts before `top_p`. `certainty` asks for the
    mean self-certainty of each sample and `windows` for its ranked profile as well, where the engine sees logits.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    seed: int = 0
    certainty: bool = False
    windows: Windows | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise UserError(f"temperature is {self.temperature}; it must be 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; it must be in (0, 1]")
        if self.top_k < 0:
            raise UserError(f"top_k is {self.top_k}; it must be 0 (off) or more")
        if self.max_tokens < 1:
            raise UserError(f"max_tokens is {self.max_tokens}; it must be 1 or more")
        if isinstance(self.stop, str) or "" in self.stop:
            raise UserError(f"stop is {self.stop!r}; it must be a tuple of non-empty strings")

    @property
    def measures_certainty(self) -> bool:
        return self.certainty or self.windows is not None


@dataclass(frozen=True)
class Sample:
    """One completion. `num_tokens` and `token_ids` include the end-of-text token; `text` ends before a stop string.

    `mean_log_probability` and `mean_certainty` are means over the completion's tokens under softmax(logits /
    temperature) before top-k and top-p (temperature 0: the plain logits). `profile` is None where the sample is
    shorter than `window_size + min_stride * (num_windows - 1)`.
    """

    text: str
    num_tokens: int
    finish_reason: str
    """`stop` (end-of-text token or stop string) or `length` (max_tokens, or the end of the context)."""
    token_ids: tuple[int, ...] | None = None
    mean_log_probability: float | None = None
    mean_certainty: float | None = None
    profile: tuple[float, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Sample:
        """Return the sample that `to_json` described."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**fields)


@dataclass(frozen=True)
class Reply:
    """The outcome of a structured question: a value that fits the schema, or None with the last error."""

    value: Any
    raw: str
    """The last answer as the model gave it."""
    num_attempts: int
    error: str | None = None


@dataclass
class Counters:
    """What a policy has done since it was made."""

    num_calls: int = 0
    num_prompt_tokens: int = 0
    num_generated_tokens: int = 0
    num_cache_hits: int = 0
    num_invalid_replies: int = 0
    num_retries: int = 0
    """Requests sent again to a server."""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def add(self, **amounts: float) -> None:
        """Add to counters by name; safe where several threads share a policy."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


@dataclass(frozen=True)
class Request:
    """One sample to draw: an engine may compute unwanted ones to keep its batches the same, but never yields them."""

    prompt: Prompt
    text: str
    """The rendered prompt."""
    number: int
    """The sample's number among those of its prompt."""
    seed: int
    wanted: bool


class PromptTooLong(UserError):
    """Prompts that leave no room for an answer; `indices` are their places in the list that was given."""

    def __init__(self, indices: Iterable[int], limit: int | None = None, reason: str = "") -> None:
        """`limit` in tokens, where it is known; else the `reason` in the server's words."""
        self.indices = tuple(sorted(set(indices)))
        self.limit = limit
        self.reason = reason
        shown = ", ".join(map(str, self.indices[:5])) + (", ..." if len(self.indices) > 5 else "")
        fits = f"the limit of {limit} tokens" if limit is not None else f"the model's limit ({reason})"
        super().__init__(
            f"{len(self.indices)} prompt(s) do not fit {fits} (numbers {shown}, counted from 0); "
            "leave them out, shorten them, or use a model with a longer context"
        )


class Policy(ABC):
    """A decision model: `generate`, `stream`, `score`, `reply`. Make one with `load_policy`."""

    identity: str
    """Names the weights, the dtype and the chat settings: the model's part of a cache key and of a manifest."""

    def __init__(self) -> None:
        self.counters = Counters()

    # What an engine implements.

    @abstractmethod
    def render(self, prompt: Prompt) -> str:
        """Return the text that the model reads for a prompt, so that a run can show one at its start."""

    @abstractmethod
    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        """Return each label's token ids: tokenised on its own, without special tokens, as `score` appends it.

        Raises `UserError` for an empty list and for a label that tokenises to nothing or is given twice.
        """

    @abstractmethod
    def _stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        """Yield (place in requests, sample) of every wanted request, each as soon as it is finished."""

    @abstractmethod
    def _score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        """Return the log-probabilities, prompts by labels."""

    # The verbs.

    def generate(self, prompts: Sequence[Prompt], n: int = 1, sampling: Sampling | None = None) -> list[list[Sample]]:
        """Draw n samples for each prompt: prompts by n.

        A sample depends on the model, the prompt's rendered text, its number, and `sampling`, and on nothing else:
        neither on the other prompts nor on n. (Across different batches, floating-point noise can still flip a near
        tie.) Raises `PromptTooLong` before any work when a prompt leaves no room for an answer.
        """
        samples: list[list[Sample | None]] = [[None] * n for _ in prompts]
        for prompt_index, sample_index, sample in self.stream(prompts, n, sampling):
            samples[prompt_index][sample_index] = sample
        return [[sample for sample in row if sample is not None] for row in samples]

    def stream(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        sampling: Sampling | None = None,
        *,
        skip: Collection[tuple[int, int]] = (),
        schema: Schema | None = None,
        first: int = 0,
    ) -> Iterator[tuple[int, int, Sample]]:
        """Yield (prompt index, sample index, sample) as they finish, without the pairs in `skip`.

        To resume, pass the same prompts, n and sampling, and skip what is recorded: batches are planned over all
        pairs, so that each missing sample is computed in the company it would have had, and comes out the same to the
        last bit. `first` is the number of the first sample (`first=4, n=4` draws samples 4 to 7; indices stay 0 to n
        - 1).
        """
        sampling = sampling or Sampling()
        if n < 1:
            raise UserError(f"n is {n}; at least one sample must be drawn")
        requests = []
        for prompt_index, prompt in enumerate(prompts):
            text = self.render(prompt)
            for sample_index in range(n):
                number = first + sample_index
                seed = _request_seed(sampling.seed, number, text)
                requests.append(Request(prompt, text, number, seed, (prompt_index, sample_index) not in skip))
        try:
            for place, sample in self._counted_stream(requests, sampling, schema):
                yield place // n, place % n, sample
        except PromptTooLong as error:
            raise PromptTooLong((place // n for place in error.indices), error.limit, error.reason) from None

    def score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        """Return the log-probability of each label as the continuation of each prompt: prompts by labels.

        A label is tokenised on its own (`label_tokens`) and appended to the prompt's tokens; the value is the sum
        over its tokens, at temperature 1, without an end-of-text token. Divide by `len(label_tokens)` for a mean.
        Labels that share their first token can be told apart only by later ones: `shared_prefixes` finds them.
        """
        started = time.perf_counter()
        scores = self._score(prompts, labels)
        self.counters.add(num_calls=len(prompts), seconds=time.perf_counter() - started)
        return scores

    def reply(
        self,
        prompts: Sequence[Prompt],
        schema: Schema,
        sampling: Sampling | None = None,
        *,
        max_attempts: int = 3,
        show_schema: bool = True,
    ) -> list[Reply]:
        """Ask for JSON that fits a schema. Never raises for a bad answer: `value` is None and `error` says why.

        The first answer that does not parse or fit is shown to the model with the error; the next one is asked
        afresh, and so on, `max_attempts` in all. `show_schema` appends the schema to each prompt.
        """
        from sif_trainer.policy.structured import ask

        return ask(self, prompts, schema, sampling or Sampling(), max_attempts, show_schema)

    def _counted_stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        """Pass samples on, counting them and the time spent inside the engine (not the consumer's)."""
        finished = self._stream(requests, sampling, schema)
        while True:
            started = time.perf_counter()
            try:
                place, sample = next(finished)
            except StopIteration:
                return
            finally:
                self.counters.add(seconds=time.perf_counter() - started)
            self.counters.add(num_calls=1, num_generated_tokens=sample.num_tokens)
            yield place, sample


def shared_prefixes(label_tokens: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return the pairs of labels that start with the same token, for callers that refuse such labels."""
    first = [ids[:1] for ids in label_tokens]
    return [(i, j) for i in range(len(first)) for j in range(i + 1, len(first)) if first[i] == first[j]]


def check_labels(labels: Sequence[str], label_tokens: Sequence[tuple[int, ...]]) -> None:
    """Raise `UserError` for no labels, a label without a token, or two labels with the same tokens."""
    if not labels:
        raise UserError("no labels to score; give at least one")
    seen: dict[tuple[int, ...], str] = {}
    for label, ids in zip(labels, label_tokens, strict=True):
        if not ids:
            raise UserError(f"the label {label!r} has no token in this model's vocabulary; choose another wording")
        if ids in seen:
            raise UserError(f"the labels {seen[ids]!r} and {label!r} have the same tokens; each must be different")
        seen[ids] = label


def refuse_long(
    prompts: Sequence[Sequence[int]],
    max_input_tokens: int | None,
    context: int | None,
    label_length: int = 0,
    answer_length: int = 0,
) -> None:
    """Raise `PromptTooLong` for ids over a limit: a label counts as input, an answer only has to fit the context."""
    limits = [max_input_tokens, None if context is None else context - answer_length]
    limit = min((limit for limit in limits if limit is not None), default=None)
    if limit is not None:
        long = [number for number, ids in enumerate(prompts) if len(ids) + label_length > limit]
        if long:
            raise PromptTooLong(long, limit - label_length)


def digest(*parts: object) -> str:
    """Return a hexadecimal sha256 of JSON-like parts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _request_seed(seed: int, sample_number: int, text: str) -> int:
    """One 31-bit seed per (seed, sample number, rendered prompt): the width that every engine takes."""
    return int(digest(seed, sample_number, text)[:16], 16) % 2**31
