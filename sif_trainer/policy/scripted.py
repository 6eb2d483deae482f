"""The scripted engine: replies and label scores from a table or a function, for tests and demonstrations.

    ScriptedPolicy({"capital of France": ["Paris", "Lyon"], "": "I don't know"})
    load_policy("scripted:replies.json")      # {"replies": {...}, "scores": {"capital": {"Paris": -0.1, "Lyon": -3}}}

A key answers every prompt whose rendered text contains it; the first such key wins, so "" at the end is the default.
Sample i gets the i-th reply of a list, going round. Tokens are words.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sif_trainer.policy.encoder import join_contents
from sif_trainer.policy.policy import Policy, Prompt, Request, Sample, Sampling, Schema, check_labels, digest
from sif_trainer.runs.errors import UserError

Replies: TypeAlias = Mapping[str, str | Sequence[str]] | Callable[[str, int], str]
"""A table, or a function of (rendered prompt, sample number)."""

Scores: TypeAlias = Mapping[str, Mapping[str, float]] | Callable[[str, str], float]
"""A table of label log-probabilities by key, or a function of (rendered prompt, label)."""


class ScriptedPolicy(Policy):
    """Answers from a script. `latency` is the seconds that each batch takes, whatever its size."""

    def __init__(
        self,
        replies: Replies | None = None,
        scores: Scores | None = None,
        *,
        latency: float = 0.0,
        identity: str | None = None,
    ) -> None:
        super().__init__()
        self.replies: Replies = {} if replies is None else replies
        self.scores: Scores = {} if scores is None else scores
        self.latency = latency
        self.identity = identity or f"scripted:{digest(self.replies, self.scores)[:16]}"

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> ScriptedPolicy:
        """Read `{"replies": {key: text or list}, "scores": {key: {label: log-probability}}}`."""
        try:
            script = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(script.get("replies", {}), script.get("scores", {}), **options)
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(f"cannot read a script from '{path}': {error}") from error

    def render(self, prompt: Prompt) -> str:
        return prompt if isinstance(prompt, str) else join_contents(prompt)

    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        """Return one made-up id per word."""
        tokens = [tuple(int(digest(word)[:8], 16) for word in label.split()) for label in labels]
        check_labels(labels, tokens)
        return tokens

    def _stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        time.sleep(self.latency)
        for place, request in enumerate(requests):
            if request.wanted:
                self.counters.add(num_prompt_tokens=len(request.text.split()))
                yield place, _cut(self._answer(request), sampling)

    def _answer(self, request: Request) -> str:
        if callable(self.replies):
            return self.replies(request.text, request.number)
        found = _lookup(self.replies, request.text, "reply")
        return found if isinstance(found, str) else found[request.number % len(found)]

    def _score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        self.label_tokens(labels)
        time.sleep(self.latency)
        texts = [self.render(prompt) for prompt in prompts]
        self.counters.add(num_prompt_tokens=sum(len(text.split()) for text in texts))
        if callable(self.scores):
            return [[self.scores(text, label) for label in labels] for text in texts]
        tables = [_lookup(self.scores, text, "scores") for text in texts]
        for table in tables:
            for label in labels:
                if label not in table:
                    raise UserError(f"the script has no score for the label {label!r}, only for {', '.join(table)}")
        return [[table[label] for label in labels] for table in tables]


def _lookup(table: Mapping[str, Any], text: str, what: str) -> Any:
    for key, value in table.items():
        if key in text:
            return value
    raise UserError(
        f"the script has no {what} for the prompt {text[:200]!r}; add a key that it contains, or the key ''"
    )


def _cut(answer: str, sampling: Sampling) -> Sample:
    """Apply stop strings and the token limit to a scripted answer."""
    stops = [place for place in map(answer.find, sampling.stop) if place >= 0]
    answer = answer[: min(stops, default=None)]
    words = list(re.finditer(r"\S+", answer))
    if len(words) > sampling.max_tokens:
        return Sample(answer[: words[sampling.max_tokens - 1].end()], sampling.max_tokens, "length")
    return Sample(answer, len(words), "stop")
