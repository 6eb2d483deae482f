"""A few persistent processes that compare answers under a time and a memory limit.

    with Workers(num_workers=2) as workers:
        grades = workers.run([("math", "1/2", "0.5", {})])

They are plain subprocesses that speak JSON lines (`worker.py`): nothing is forked, so threads and CUDA contexts of the
caller are safe, and the caller's main module is not imported again. A worker that overruns or dies is replaced; its
item comes back as "unparsable", and the others are untouched.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import sif_trainer
from sif_trainer.tasks.verdict import Grade

Request = tuple[str, str, str, dict[str, Any]]  # rule, prediction, gold, fields

_RULE_SECONDS = {"reasoning_gym": 60.0}  # its first item imports a hundred data sets
_START_SECONDS = 120.0  # for importing sympy on a busy machine
_GRACE_SECONDS = 1.0  # between a worker's own alarm and its end from outside


class _Worker:
    """One subprocess, the index of the request that it works on, and the time by which it must answer."""

    def __init__(self, memory_mb: int) -> None:
        root = str(Path(sif_trainer.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sif_trainer.tasks.worker", str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # a Ctrl-C at the terminal is the caller's
        )
        self.is_ready = False
        self.index: int | None = None
        self.deadline = time.monotonic() + _START_SECONDS
        self._buffer = b""

    def send(self, index: int, request: Request, seconds: float) -> None:
        assert self.process.stdin is not None
        self.index, self.deadline = index, time.monotonic() + seconds + _GRACE_SECONDS
        self.process.stdin.write(json.dumps([seconds, *request]).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> list[Any] | None:
        """The message, once it is complete. Raises `EOFError` when the process has ended."""
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 65536)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        if not self._buffer.endswith(b"\n"):
            return None
        message: list[Any] = json.loads(self._buffer)
        self._buffer = b""
        return message

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Workers:
    """A pool of `num_workers` processes; each item has `seconds`, each process `memory_mb` of address space."""

    def __init__(self, num_workers: int = 2, seconds: float = 4.0, memory_mb: int = 2048) -> None:
        self.num_workers, self.seconds, self.memory_mb = num_workers, seconds, memory_mb
        self.num_replaced = 0
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()

    def run(self, requests: Sequence[Request]) -> list[Grade]:
        """Grades of the requests, in order. Blocks; calls from several threads take turns."""
        with self._lock:
            try:
                return self._run(requests)
            except BaseException:  # an interrupt, say: a worker's late answer must not be taken for the next run's
                self.close()
                raise

    def _run(self, requests: Sequence[Request]) -> list[Grade]:
        grades: dict[int, Grade] = {}
        waiting = list(range(len(requests)))[::-1]
        self._workers = [worker for worker in self._workers if worker.process.poll() is None]
        while len(self._workers) < min(self.num_workers, len(requests)):
            self._workers.append(_Worker(self.memory_mb))
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(_output(worker), selectors.EVENT_READ, worker)
                if worker.is_ready:
                    self._give(worker, waiting, requests)
            while len(grades) < len(requests):
                first_deadline = min(worker.deadline for worker in self._workers)
                for key, _ in selector.select(max(0.0, first_deadline - time.monotonic())):
                    worker = key.data
                    try:
                        message = worker.receive()
                    except EOFError:
                        self._replace(worker, selector, requests, grades, "comparing ended its process")
                        continue
                    if message is None:
                        continue
                    if worker.index is not None:
                        grades[worker.index] = Grade(*message)
                    worker.is_ready = True
                    self._give(worker, waiting, requests)
                for worker in [worker for worker in self._workers if worker.deadline < time.monotonic()]:
                    why = f"comparing took longer than {self.seconds:g} s"
                    self._replace(worker, selector, requests, grades, why)
        return [grades[index] for index in range(len(requests))]

    def _give(self, worker: _Worker, waiting: list[int], requests: Sequence[Request]) -> None:
        """Hand the next request to a ready worker, or let it rest."""
        if waiting:
            index = waiting.pop()
            worker.send(index, requests[index], _RULE_SECONDS.get(requests[index][0], self.seconds))
        else:
            worker.index, worker.deadline = None, math.inf

    def _replace(
        self,
        worker: _Worker,
        selector: selectors.BaseSelector,
        requests: Sequence[Request],
        grades: dict[int, Grade],
        why: str,
    ) -> None:
        """End a worker, grade its request as unparsable, and start another worker."""
        if worker.index is None:
            raise RuntimeError("a grading process could not start; try: python -m sif_trainer.tasks.worker 2048")
        grades[worker.index] = Grade.unparsable(requests[worker.index][1], why)
        selector.unregister(_output(worker))
        worker.end()
        fresh = _Worker(self.memory_mb)
        selector.register(_output(fresh), selectors.EVENT_READ, fresh)
        self._workers[self._workers.index(worker)] = fresh
        self.num_replaced += 1

    def close(self) -> None:
        """End all processes; a later `run` starts new ones."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _output(worker: _Worker) -> int:
    assert worker.process.stdout is not None
    return worker.process.stdout.fileno()
