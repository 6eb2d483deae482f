"""The vLLM engine, in this process: the fast way to many or long samples on a GPU.

    load_policy("vllm:Qwen/Qwen3-1.7B", tensor_parallel_size=2)      # pip install 'sif-trainer[vllm]'

Every sample is a request of its own, with the seed that all engines derive for it, so that samples can be recorded as
they finish and drawn again one by one; vLLM's prefix cache makes the prompt's forward shared. Scores of labels are
read off the next-token distribution after the prompt and after each beginning of a label, again through the prefix
cache. vLLM does not promise equal numbers in different batches. Certainty it gives when loaded with `certainty=True`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sif_trainer.certainty.recording import Recording
from sif_trainer.policy.checkpoint import fingerprint, locate
from sif_trainer.policy.encoder import PromptEncoder
from sif_trainer.policy.policy import Policy, Prompt, Request, Sample, Sampling, Schema, refuse_long
from sif_trainer.policy.transformers_engine import profile_of
from sif_trainer.runs.errors import UserError, require

MASKS = ("allowed_token_ids", "bad_words", "logit_bias", "min_tokens", "structured_outputs")
"""Sampling options that change logits before they can be recorded."""
MAX_NEXT_TOKENS = 128
"""vLLM's bound on the tokens whose log-probabilities are asked for by id."""


class VLLMPolicy(Policy):
    """A model in `vllm.LLM`. For one thread, and one unfinished `stream`, at a time."""

    def __init__(
        self,
        name: str,
        *,
        max_input_tokens: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        certainty: bool = False,
        **options: Any,
    ) -> None:
        """`max_input_tokens` as in `TransformersPolicy`; `options` go to `vllm.LLM` (dtype, max_model_len, ...).

        `certainty` records it inside the engine (vllm_certainty.py), which then gives no structured replies.
        """
        super().__init__()
        self.vllm = require("vllm", extra="vllm")
        where = locate(name)
        model = str(Path(where.name) / where.gguf_file) if where.gguf_file else where.name
        if require("vllm.platforms", extra="vllm").current_platform.is_cpu():
            # vLLM 0.32 rewinds a seeded generator after each chunk of a prompt; torch has no such CPU generator.
            options.setdefault("enable_chunked_prefill", False)
        self._recording = Recording() if certainty else None
        if self._recording is not None:
            from sif_trainer.policy.vllm_certainty import certainty_processor, choose_runner

            choose_runner()
            # Drawn tokens are read back at once, so that a finished sample's record is complete and can be dropped.
            options |= {"logits_processors": [certainty_processor(self._recording)], "async_scheduling": False}
        self.llm = self.vllm.LLM(model=model, **options)
        config = self.llm.llm_engine.model_config
        self.encoder = PromptEncoder(self.llm.get_tokenizer(), chat_template, chat_template_kwargs)
        self.context: int = config.max_model_len
        self.max_input_tokens = max_input_tokens
        commit = getattr(config.hf_config, "_commit_hash", None)
        settings = [str(config.dtype), chat_template, chat_template_kwargs]
        self.identity = f"vllm:{fingerprint(where, commit, settings)}"
        self._request_ids = map(str, itertools.count())

    def render(self, prompt: Prompt) -> str:
        return self.encoder.render(prompt)

    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        return self.encoder.label_tokens(labels)

    def _stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        if sampling.measures_certainty and self._recording is None:
            raise UserError("vLLM records certainty only when it is loaded with certainty=True (engine_options)")
        if schema is not None and self._recording is not None:
            raise UserError("vLLM that was loaded with certainty=True gives no structured replies; load it without")
        prompts = self.encoder.encode_all([request.prompt for request in requests])
        refuse_long(prompts, self.max_input_tokens, self.context, answer_length=1)
        structured = None if schema is None else self.vllm.sampling_params.StructuredOutputsParams(json=dict(schema))
        jobs = [
            (
                place,
                prompts[place],
                self.vllm.SamplingParams(
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    top_k=sampling.top_k,
                    max_tokens=min(sampling.max_tokens, self.context - len(prompts[place])),
                    stop=list(sampling.stop),
                    seed=request.seed,
                    structured_outputs=structured,
                ),
            )
            for place, request in enumerate(requests)
            if request.wanted
        ]
        for place, output in self._run(jobs):
            self.counters.add(num_prompt_tokens=len(prompts[place]))
            reason = "length" if output.finish_reason == "length" else "stop"
            sample = Sample(output.text, len(output.token_ids), reason, tuple(output.token_ids))
            if self._recording is not None:
                certainties = self._recording.scores(prompts[place], output.token_ids)[0].tolist()
                self._recording.forget(prompts[place], output.token_ids)
                if sampling.measures_certainty:
                    mean = sum(certainties) / len(certainties)
                    sample = replace(sample, mean_certainty=mean, profile=profile_of(certainties, sampling))
            yield place, sample

    def _score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        label_ids = self.label_tokens(labels)
        encoded = self.encoder.encode_all(prompts)
        # One more token than the labels': the engine always draws one after what it reads.
        refuse_long(encoded, self.max_input_tokens, self.context, label_length=max(map(len, label_ids)))
        self.counters.add(num_prompt_tokens=sum(map(len, encoded)))
        beginnings = sorted({label[:end] for label in label_ids for end in range(len(label))}, key=len)
        next_tokens = {
            start: sorted(
                {label[len(start)] for label in label_ids if label[: len(start)] == start and label != start}
            )
            for start in beginnings
        }
        found: dict[tuple[int, tuple[int, ...], int], float] = {}
        # The prompts alone come first, so that the longer requests find them in the prefix cache.
        for group in (beginnings[:1], beginnings[1:]):
            keys = [
                (place, start, next_tokens[start][at : at + MAX_NEXT_TOKENS])
                for place in range(len(prompts))
                for start in group
                for at in range(0, len(next_tokens[start]), MAX_NEXT_TOKENS)
            ]
            jobs = [
                (
                    number,
                    [*encoded[place], *start],
                    self.vllm.SamplingParams(temperature=0, max_tokens=1, logprob_token_ids=tokens, detokenize=False),
                )
                for number, (place, start, tokens) in enumerate(keys)
            ]
            for number, output in self._run(jobs):
                place, start, tokens = keys[number]
                for token in tokens:
                    found[place, start, token] = output.logprobs[0][token].logprob
        return [
            [sum(found[place, label[:end], label[end]] for end in range(len(label))) for label in label_ids]
            for place in range(len(prompts))
        ]

    def _run(self, jobs: Sequence[tuple[int, list[int], Any]]) -> Iterator[tuple[int, Any]]:
        """Run (place, token ids, sampling parameters) and yield (place, completion) as they finish."""
        engine = self.llm.llm_engine
        places: dict[str, int] = {}
        try:
            for place, ids, params in jobs:
                params.output_kind = self.vllm.sampling_params.RequestOutputKind.FINAL_ONLY
                request_id = next(self._request_ids)
                places[request_id] = place
                engine.add_request(request_id, {"prompt_token_ids": ids}, params)
            while places:
                for output in engine.step():
                    if output.finished:
                        yield places.pop(output.request_id), output.outputs[0]
        finally:
            engine.abort_request(list(places))
            if self._recording is not None:
                self._recording.clear()
