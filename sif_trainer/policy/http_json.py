"""One JSON exchange with a server that may be down, slow, overloaded or confused.

`Endpoint(url).post("/completions", body, read)` is all that `server.py` uses. Connection errors, time-outs, status
408, 409, 429 and 5xx, and answers that make no sense are retried with growing pauses; everything else fails at once.
Only the standard library is used, because the HTTP client that transformers brings along changes its name between
versions.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sif_trainer.runs.errors import UserError

T = TypeVar("T")
RETRIED = {408, 409, 429, 500, 502, 503, 504}
LONGEST_PAUSE = 30.0


class Refused(UserError):
    """The server understood the request and said no; `message` is its own text."""

    def __init__(self, url: str, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(f"the server refused {url} with status {status}: {message[:300]}")


class Endpoint:
    """A base URL with its key, time-out and patience. `on_retry` is called before each repeated attempt."""

    def __init__(
        self,
        url: str,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        timeout: float = 600.0,
        max_retries: int = 5,
        pause: float = 1.0,
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        """The key is read from the environment variable `api_key_env`, and is neither stored in records nor printed.

        `timeout` is the seconds of silence that are waited for; `pause` the first pause, doubled for each retry.
        """
        self.url = url.rstrip("/")
        self.api_key_env = api_key_env
        self.timeout = timeout
        self.max_retries = max_retries
        self.pause = pause
        self.on_retry = on_retry

    def get(self, path: str, read: Callable[[Any], T]) -> T:
        """Return what `read` takes from the JSON at a path."""
        return self._exchange(path, None, read)

    def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """Send a JSON object and return what `read` takes from the answer.

        `read` may trust the answer's layout: a KeyError and the like count as nonsense, which is retried. Raises
        `Refused` when the server says no, and `UserError` when patience ends.
        """
        return self._exchange(path, json.dumps(body).encode(), read)

    def _exchange(self, path: str, body: bytes | None, read: Callable[[Any], T]) -> T:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.api_key_env):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        for attempt in range(self.max_retries + 1):
            wait = min(self.pause * 2**attempt, LONGEST_PAUSE)
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    content = response.read()
                return read(json.loads(content))
            except urllib.error.HTTPError as error:
                text = error.read().decode(errors="replace")
                if error.code not in RETRIED:
                    raise Refused(self.url + path, error.code, _message(text) + self._hint(error.code)) from None
                problem = f"status {error.code}: {_message(text)[:200]}"
                wait = _seconds(error.headers.get("Retry-After"), wait)
            except (OSError, http.client.HTTPException) as error:  # refused, reset, timed out, cut off
                problem = str(error) or type(error).__name__
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                problem = f"it answered {content[:100]!r}, which is not what the protocol says"
            if attempt < self.max_retries:
                self.on_retry()
                time.sleep(wait)
        raise UserError(
            f"no usable answer from {self.url + path} after {self.max_retries + 1} attempts; the last: {problem}; "
            "check that the server runs and call again (what was finished is kept)"
        )

    def _hint(self, status: int) -> str:
        return f" (the key is read from the environment variable {self.api_key_env})" if status in (401, 403) else ""


def _message(text: str) -> str:
    """Return the message of an OpenAI-style error body, or the body."""
    try:
        body = json.loads(text)
        return str(body.get("message") or body["error"]["message"])
    except (ValueError, AttributeError, KeyError, TypeError):
        return text


def _seconds(retry_after: str | None, default: float) -> float:
    """Return the pause that the server asked for, within bounds."""
    if retry_after is None or not retry_after.isdigit():
        return default
    return min(float(retry_after), LONGEST_PAUSE)
