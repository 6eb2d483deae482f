"""The search for asynchronous programs: the same search in a thread, whose parts may be coroutines.

    result = await search_async(problem, sampler, scorer, verifier, Costs.of(1, 10))
    results = await asyncio.gather(*(search_async(problem, ...) for problem in problems))

A part whose method is a coroutine function runs on the caller's event loop; an ordinary one runs in the thread. A
sampler's asynchronous `draw` returns a list.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from sif_trainer.policy.policy import Prompt
from sif_trainer.systems.adap.journal import Stopped
from sif_trainer.systems.adap.parts import Candidate, Problem, Verdict
from sif_trainer.systems.adap.search import Result, search


async def search_async(
    problem: Problem | Prompt, sampler: Any, scorer: Any, verifier: Any, *arguments: Any, **settings: Any
) -> Result:
    """Search one problem without blocking the event loop; arguments and result are those of `search`.

    A cancelled task's search ends at its next draw, score or verification.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    draws, scores, verifies = (_Blocking(part, loop, stop) for part in (sampler, scorer, verifier))
    thread = ThreadPoolExecutor(1)  # its own: asyncio's shared threads are few, and searches spend their time waiting
    try:
        return await loop.run_in_executor(
            thread, partial(search, problem, draws, scores, verifies, *arguments, **settings)
        )
    finally:
        stop.set()
        thread.shutdown(wait=False)


class _Blocking:
    """A part as `search` wants it: what a coroutine function of it returns is waited for."""

    def __init__(self, part: Any, loop: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        self._part, self._loop, self._stop = part, loop, stop
        self.relative = bool(getattr(part, "relative", False))

    def draw(self, problem: Problem, num: int, first: int) -> Sequence[Candidate]:
        drawn: Sequence[Candidate] = self._call(self._part.draw, problem, num, first)
        return drawn

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Sequence[float | None]:
        scores: Sequence[float | None] = self._call(self._part.score, problem, candidates)
        return scores

    def verify(self, problem: Problem, candidate: Candidate, *, cancel: Any = None) -> Verdict:
        verdict: Verdict = self._call(self._part.verify, problem, candidate, cancel=cancel)
        return verdict

    def _call(self, method: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        if self._stop.is_set():
            raise Stopped
        if inspect.iscoroutinefunction(method):
            return asyncio.run_coroutine_threadsafe(method(*arguments, **settings), self._loop).result()
        return method(*arguments, **settings)
