"""Run programs that nobody has read, such as a model's, in the strongest isolation that the machine offers.

    isolation = Isolation()                               # or Isolation(allow_weaker=True)
    finished = isolation.run(["main.py"], {"main.py": "print(input())"}, stdin=b"5\\n", limits=Limits(seconds=2))
    finished.status, finished.stdout                      # 0, b"5\\n"

The levels, strongest first, each tried on this machine before it is trusted:

- `container` (Linux with user namespaces): own user, mount, process, network and IPC namespaces. The program sees the
  system's libraries and Python, read-only, and an empty folder in memory; no network, no other process, no home, no
  `/proc`. All that it started ends with it.
- `user` (Linux, as root): a user id of its own. It cannot signal, read or write what belongs to others, but sees the
  network and what everybody may read.
- `limits`: an own session and the limits on memory, CPU, files and processes, as the user who runs this.

Where the published experiments run a candidate beside the expected outputs in one process, here nothing but the
program and its input ever enters (`enter.py`), and what comes out is judged by the caller.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, TypeAlias, get_args

from sif_trainer.runs.errors import UserError

Level: TypeAlias = Literal["container", "user", "limits"]
LEVELS: tuple[Level, ...] = get_args(Level)

MISSING: dict[Level, str] = {
    "container": "",
    "user": "programs can use the network and read what everybody may read",
    "limits": "programs can use the network, and read, write and signal what you can",
}
_ENTER = Path(__file__).with_name("enter.py")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"} | {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")
}
_LOOK_SECONDS = 0.05  # how soon a cancellation is seen
_GRACE_SECONDS = 10.0  # for the end of what was stopped


@dataclass(frozen=True)
class Limits:
    """What one run may use. `memory_mb` is a process's address space; with n processes, n times as much at most.

    `file_mb` bounds each file, the output, and, at level `container`, all that it writes. `num_processes` is how many
    it may start, threads as well.
    """

    seconds: float = 4.0
    memory_mb: int = 1024
    file_mb: int = 16
    num_processes: int = 32
    num_open_files: int = 64

    def __post_init__(self) -> None:
        for name, least in (("seconds", 0.0), ("memory_mb", 63), ("file_mb", 0), ("num_processes", 0)):
            if not getattr(self, name) > least:
                raise UserError(f"{name} is {getattr(self, name)}; it must be more than {least:g}")
        if not 16 <= self.num_open_files <= 1024:
            raise UserError(f"num_open_files is {self.num_open_files}; it must be from 16 to 1024")


@dataclass(frozen=True)
class Finished:
    """How a run ended: `status` is the exit status, 128 + n after signal n, None where `reason` says why it has none.

    `result` is what it wrote to file descriptor 3.
    """

    status: int | None
    stdout: bytes
    stderr: bytes
    result: bytes
    seconds: float
    reason: str = ""

    @property
    def last_words(self) -> str:
        """The last line of the standard error."""
        lines = self.stderr[-2000:].decode("utf-8", "replace").strip().splitlines()
        return "".join(char if char.isprintable() else "?" for char in lines[-1][:200]) if lines else ""


class IsolationError(Exception):
    """The walls could not be built, or something got over them."""


def strongest_isolation() -> Level | None:
    """The strongest level that works on this machine, found by trying."""
    return next((level for level in LEVELS if not why_not(level)), None)


@functools.cache
def why_not(level: Level) -> str:
    """Why a level does not work on this machine; empty if it does."""
    if level != "limits" and sys.platform != "linux":
        return "it needs Linux"
    if level == "user" and os.geteuid() != 0:
        return "it needs root"
    if level == "limits" and os.geteuid() == 0:
        return "it would hold back nothing of what root can do; run this as another user"
    try:
        finished = _run(level, ["main.py"], {"main.py": "print(6 * 7)"}, b"", Limits(seconds=30), None)
    except IsolationError as error:
        return str(error)
    return "" if finished.stdout == b"42\n" else f"Python does not start there: {finished.last_words}"


class Isolation:
    """Runs programs at `level`: `container`, or with `allow_weaker` the strongest that there is.

    Raises `UserError` where the machine offers less than is allowed.
    """

    def __init__(self, allow_weaker: bool = False) -> None:
        level = strongest_isolation()
        if level is None:
            reasons = "; ".join(f"'{level}': {why_not(level)}" for level in LEVELS)
            raise UserError(f"this machine offers no isolation to run programs in ({reasons})")
        if level != LEVELS[0] and not allow_weaker:
            raise UserError(
                f"the strongest isolation on this machine is '{level}': {MISSING[level]} (no '{LEVELS[0]}': "
                f"{why_not(LEVELS[0])}); allow user namespaces (kernel.apparmor_restrict_unprivileged_userns=0, or in "
                "Docker --security-opt seccomp=unconfined), or accept it with allow_weaker_isolation=true"
            )
        self.level: Level = level

    def run(
        self,
        arguments: Sequence[str],
        files: Mapping[str, str],
        stdin: bytes = b"",
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> Finished:
        """Run Python with `arguments` in a folder that holds `files`; blocks, safe in threads.

        Raises `IsolationError` where the walls could not be built or something got over them.
        """
        return _run(self.level, arguments, files, stdin, limits or Limits(), cancel)


def _run(
    level: Level,
    arguments: Sequence[str],
    files: Mapping[str, str],
    stdin: bytes,
    limits: Limits,
    cancel: threading.Event | None,
) -> Finished:
    box = tempfile.mkdtemp(prefix="sif-isolated-")
    report, report_end = os.pipe()
    try:
        with contextlib.ExitStack() as stack:
            job, given, stdout, stderr, result = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(5))
            _fill(given, stdin)
            _fill(job, json.dumps(_job(level, box, arguments, files, limits, result.fileno())).encode())
            started = time.monotonic()
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_ENTER), str(job.fileno()), str(report_end)],
                    stdin=given,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(job.fileno(), report_end, result.fileno()),
                    env=_ENVIRONMENT,
                    start_new_session=True,  # a Ctrl-C at the terminal is the caller's
                )
            finally:
                os.close(report_end)
            reason = _wait(process, report, started + limits.seconds, cancel)
            seconds = time.monotonic() - started
            told = json.loads(os.read(report, 65536) or b"{}")
            if not told and not reason:
                told = {"error": "the program killed the process that watches it"}
            if told.get("error"):
                raise IsolationError(f"isolation '{level}': {told['error']}")
            status = None if reason else told["status"]
            return Finished(status, _content(stdout), _content(stderr), _content(result), seconds, reason)
    finally:
        os.close(report)
        subprocess.run(["rm", "-rf", "--", box], stderr=subprocess.DEVNULL, check=False)  # of any depth


def _job(
    level: Level, box: str, arguments: Sequence[str], files: Mapping[str, str], limits: Limits, result_fd: int
) -> dict[str, object]:
    return {
        "level": level,
        "box": box,
        "program": [sys.executable, "-sPB", *arguments],
        "files": dict(files),
        "environment": _ENVIRONMENT,
        "visible": [place for prefix in (sys.base_prefix, sys.prefix) for place in (prefix, os.path.realpath(prefix))],
        "result_fd": result_fd,
        "cpu_seconds": int(limits.seconds) + 2,  # for what outlives its time: the clock comes first
        **{name: getattr(limits, name) for name in ("memory_mb", "file_mb", "num_processes", "num_open_files")},
    }


def _wait(process: subprocess.Popen[bytes], report: int, deadline: float, cancel: threading.Event | None) -> str:
    """Wait for the report and the end; return "", or why the program was stopped before it came."""
    reason = "interrupted"
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(report, selectors.EVENT_READ)
            while not selector.select(max(0.0, min(_LOOK_SECONDS, deadline - time.monotonic()))):
                if cancel is not None and cancel.is_set():
                    reason = "cancelled"
                    break
                if time.monotonic() >= deadline:
                    reason = "timed out"
                    break
            else:
                reason = ""
        return reason
    finally:
        if reason:
            process.terminate()  # it ends all that it started, reports, and ends
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _fill(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.seek(0)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def within(limits: Limits, seconds: float) -> Limits:
    """The limits with at most `seconds` of time."""
    return replace(limits, seconds=min(limits.seconds, seconds))
