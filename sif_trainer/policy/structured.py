"""Structured replies: find the JSON in an answer, hold it against a schema, and ask again within bounds.

`Policy.reply` calls `ask`. Engines that constrain decoding to a schema (vllm, server) seldom need more than the first
attempt; with the others the tolerance is: prose and code fences around the JSON, thinking before it, trailing commas,
and line breaks inside strings. A truncated answer is never completed by guessing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match

from sif_trainer.policy.policy import Policy, Prompt, PromptTooLong, Reply, Sample, Sampling, Schema
from sif_trainer.runs.errors import UserError

MAX_STARTS = 200
"""Brackets at which a value is looked for, so that a hostile answer cannot take long."""

MAX_SHOWN = 2000
"""Characters of an invalid answer, and of its error, that are shown to the model."""


def ask(
    policy: Policy,
    prompts: Sequence[Prompt],
    schema: Schema,
    sampling: Sampling,
    max_attempts: int,
    show_schema: bool,
) -> list[Reply]:
    """See `Policy.reply`. Every round sends all open questions as one batch."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise UserError(f"the schema of a structured reply is not valid: {error.message}") from error
    if max_attempts < 1:
        raise UserError(f"max_attempts is {max_attempts}; at least one attempt is needed")
    if show_schema:
        instruction = f"Answer with JSON only, without other text, according to this schema: {json.dumps(schema)}"
        prompts = [_with_text(prompt, instruction) for prompt in prompts]
    replies: dict[int, Reply] = {}
    for attempt in range(max_attempts):
        places = [place for place in range(len(prompts)) if place not in replies or replies[place].error]
        if not places:
            break
        # A repair follows each fresh attempt; at temperature 0 a fresh attempt would only repeat the first.
        repairs = attempt > 0 and (attempt % 2 == 1 or sampling.temperature == 0)
        originals = [prompts[place] for place in places]
        asked = [_repair(prompts[place], replies[place]) for place in places] if repairs else originals
        samples = _draw(policy, asked, originals, schema, sampling, attempt)
        for place, sample in zip(places, samples, strict=True):
            value, problem = parse(sample.text, schema)
            if problem and sample.finish_reason == "length":
                problem = f"the answer was cut off after {sample.num_tokens} tokens ({problem})"
            policy.counters.add(num_invalid_replies=int(problem is not None))
            replies[place] = Reply(value, sample.text, attempt + 1, problem)
    return [replies[place] for place in range(len(prompts))]


def parse(text: str, schema: Schema) -> tuple[Any, str | None]:
    """Return (value, None) for the first JSON value in the text that fits the schema, else (None, what is wrong)."""
    validator = Draft202012Validator(schema)
    answer = text.rpartition("</think>")[2]
    problem = None
    for candidate in (answer, _without_trailing_commas(answer)):
        for value in _json_values(candidate):
            error = best_match(validator.iter_errors(value))
            if error is None:
                return value, None
            problem = problem or f"at {error.json_path}: {error.message[:MAX_SHOWN]}"
    return None, problem or "there is no complete JSON value in the answer"


def _json_values(text: str) -> Iterator[Any]:
    """Yield the whole text as JSON or, failing that, the objects and lists found in it from left to right."""
    decoder = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)
    try:
        yield decoder.decode(re.sub(r"^```\w*\n|\n```$", "", text.strip()))
        return
    except (ValueError, RecursionError):
        pass  # look inside the text
    end = 0
    for match in islice(re.finditer(r"[{\[]", text), MAX_STARTS):
        if match.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _finite(literal: str) -> float:
    """Refuse NaN, Infinity and numbers beyond a float: JSON has none."""
    if not math.isfinite(float(literal)):
        raise ValueError(f"{literal} is not a JSON number")
    return float(literal)


def _without_trailing_commas(text: str) -> str:
    """Remove commas before a closing bracket, outside of strings."""
    return re.sub(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', lambda found: found[0].removeprefix(","), text)


def _repair(prompt: Prompt, reply: Reply) -> Prompt:
    """Return the prompt with the invalid answer and the complaint about it."""
    answer = reply.raw[:MAX_SHOWN]
    complaint = f"This answer is not valid: {reply.error}. Answer again, with valid JSON only."
    if isinstance(prompt, str):
        return f"{prompt}\n\n{answer}\n\n{complaint}"
    return [*prompt, {"role": "assistant", "content": answer}, {"role": "user", "content": complaint}]


def _with_text(prompt: Prompt, text: str) -> Prompt:
    """Return the prompt with text added at its end, in the last message of a chat."""
    if isinstance(prompt, str):
        return f"{prompt}\n\n{text}"
    return [*prompt[:-1], {**prompt[-1], "content": f"{prompt[-1]['content']}\n\n{text}"}]


def _draw(
    policy: Policy,
    asked: Sequence[Prompt],
    originals: Sequence[Prompt],
    schema: Schema,
    sampling: Sampling,
    attempt: int,
) -> list[Sample]:
    """Draw one sample each; a repair that no longer fits the context is replaced by the original question."""
    while True:
        try:
            drawn = {
                place: sample for place, _, sample in policy.stream(asked, 1, sampling, schema=schema, first=attempt)
            }
            return [drawn[place] for place in range(len(asked))]
        except PromptTooLong as error:
            if any(asked[place] is originals[place] for place in error.indices):
                raise
            asked = [originals[place] if place in error.indices else asked[place] for place in range(len(asked))]
