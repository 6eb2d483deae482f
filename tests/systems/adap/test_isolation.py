"""The walls one by one, at every level that this machine has, and what happens where a level is missing."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap import isolation
from sif_trainer.systems.adap.isolation import Finished, Isolation, IsolationError, Level, Limits

CONTAINER = pytest.mark.skipif(isolation.strongest_isolation() != "container", reason="needs user namespaces")
TRY = """
import ctypes, os, socket, sys, time
def attempt(act):
    try:
        print(act())
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.fixture(params=isolation.LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Level:
    """Each level that works here; `user` with the system's Python where this one is not everybody's to read."""
    if request.param == "limits":
        return "limits"  # works everywhere, though root is not offered it
    if request.param == "user" and os.geteuid() == 0 and Path("/usr/bin/python3").exists():
        monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    why = isolation.why_not.__wrapped__(request.param)
    if why:
        pytest.skip(why)
    return request.param


def run(level: Level, code: str, stdin: bytes = b"", **limits: float) -> Finished:
    return isolation._run(level, ["main.py"], {"main.py": TRY + code}, stdin, Limits(**limits), None)


def test_input_output_status_and_result(level: Level) -> None:
    code = """
print(sys.stdin.buffer.readline().decode().strip(), os.read(0, 99), input.__name__)
print("oh", file=sys.stderr)
os.write(3, b"result")
sys.exit(7)"""
    finished = run(level, code, "grüß\nnext\n".encode())
    assert finished.stdout.decode().split() == ["grüß", "b''", "input"]
    assert (finished.status, finished.result, finished.last_words, finished.reason) == (7, b"result", "oh", "")


def test_a_signal_is_a_status(level: Level) -> None:
    assert run(level, "import signal\nsignal.raise_signal(signal.SIGSEGV)").status == 128 + 11


def test_it_starts_in_an_empty_folder_that_goes_away(level: Level) -> None:
    folders = Path(tempfile.gettempdir()).glob
    before = set(folders("sif-isolated-*"))
    depth = 1100 if level == "limits" else 10  # deeper than Python's own removal of folders goes
    code = f"""
print(os.listdir("."), os.environ["HOME"] == os.getcwd() == os.environ["TMPDIR"])
for _ in range({depth}):
    os.mkdir("d")
    os.chdir("d")"""
    assert run(level, code, seconds=30).stdout.decode() == "['main.py'] True\n"
    assert gone(set(folders("sif-isolated-*")) - before, lambda: set(folders("sif-isolated-*")))


def test_the_clock_stops_it(level: Level) -> None:
    finished = run(level, "print('begun', flush=True)\nwhile True: time.sleep(1)", seconds=0.5)
    assert (finished.status, finished.stdout, finished.reason) == (None, b"begun\n", "timed out")


def test_a_cancellation_stops_it(level: Level) -> None:
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    finished = isolation._run(level, ["main.py"], {"main.py": "while True: pass"}, b"", Limits(seconds=60), cancel)
    assert finished.reason == "cancelled"
    assert time.monotonic() - started < 30


def test_memory_files_and_descriptors_are_limited(level: Level) -> None:
    code = """
attempt(lambda: len(bytearray(300 << 20)))
attempt(lambda: len(bytearray(30 << 20)))
attempt(lambda: open("big", "wb", buffering=0).write(bytes(8 << 20)) // (1 << 20))
attempt(lambda: [open(os.devnull) for _ in range(40)])"""
    if sys.platform == "linux":
        words = run(level, code, memory_mb=200, file_mb=2, num_open_files=32).stdout.decode().split()
        assert words[0] == "MemoryError"
        assert words[1] == str(30 << 20)
        assert words[2] in ("1", "2")  # a part of it, or all that the limit leaves
        assert words[3] == "OSError"


def test_no_more_processes_than_allowed(level: Level) -> None:
    if level == "limits" and os.geteuid() == 0:
        pytest.skip("nothing limits the processes of root")
    code = """
num = 0
try:
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(9)
            os._exit(0)
        num += 1
except OSError:
    print(num)"""
    assert 4 <= int(run(level, code, num_processes=10).stdout) <= 40


def test_nothing_is_left_of_a_daemon(level: Level, tmp_path: Path) -> None:
    code = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(61)
    os._exit(0)
os.wait()
print("done")"""
    before = sleeping()
    assert run(level, code).stdout == b"done\n"
    assert gone(sleeping() - before, sleeping)


def gone(left: set[Any], now: Callable[[], set[Any]]) -> bool:
    """Whether all that is left goes away within ten seconds, as what belongs to tests beside this one does."""
    for _ in range(100):
        left = left & now()
        if not left:
            return True
        time.sleep(0.1)
    return False


def sleeping() -> set[str]:
    """Processes whose command line runs a `main.py`."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().endswith(b"main.py\0"):
                found.add(path.parent.name)
        except OSError:
            continue
    return found


def test_the_environment_is_not_inherited(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("PYTHONPATH", "/x")
    assert run(level, "print('SECRET' in os.environ, '/x' in sys.path)").stdout == b"False False\n"


def test_runs_in_threads_do_not_meet(level: Level) -> None:
    found: dict[int, bytes] = {}

    def one(number: int) -> None:
        found[number] = run(level, "print(input())", str(number).encode(), seconds=60).stdout

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n".encode() for number in range(8)}


@CONTAINER
def test_a_container_shows_python_and_nothing_else() -> None:
    code = """
attempt(lambda: os.listdir("/proc"))
attempt(lambda: os.listdir("/home"))
attempt(lambda: open("/written", "w"))
attempt(lambda: os.access(os.__file__, os.W_OK))
attempt(lambda: socket.create_connection(("127.0.0.1", 9), 1))
attempt(lambda: os.getppid())
attempt(lambda: os.getuid() != 0)
attempt(lambda: ctypes.CDLL(None).unshare(0x10000000))
import numpy
print(numpy.arange(4).sum())"""
    expected = ["FileNotFoundError", "FileNotFoundError", "OSError", "False", "OSError", "1", "True", "-1", "6"]
    assert run("container", code, seconds=30).stdout.decode().split() == expected


def test_the_strongest_level_is_used_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"container": "unshare: Operation not permitted"}
    monkeypatch.setattr(isolation, "why_not", lambda level: missing.get(level, ""))
    assert isolation.strongest_isolation() == "user"
    assert Isolation(allow_weaker=True).level == "user"
    with pytest.raises(UserError, match=r"'user': .*network.*Operation not permitted.*allow_weaker_isolation=true"):
        Isolation()
    missing.update({"user": "it needs root", "limits": "no fork"})
    assert isolation.strongest_isolation() is None
    with pytest.raises(UserError, match=re.escape("offers no isolation")):
        Isolation(allow_weaker=True)


def test_root_is_never_held_back_by_limits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "as another user" in isolation.why_not.__wrapped__("limits")


def test_a_wall_that_cannot_be_built_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    job = isolation._job

    def without_python(*arguments: object) -> dict[str, object]:
        return {**job(*arguments), "program": ["/none/python"]}

    monkeypatch.setattr(isolation, "_job", without_python)
    with pytest.raises(IsolationError, match="No such file"):
        run("limits", "pass")


@pytest.mark.parametrize(
    "limits", [{"seconds": 0.0}, {"memory_mb": 1}, {"file_mb": 0}, {"num_processes": -1}, {"num_open_files": 2}]
)
def test_impossible_limits_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(limits))):
        Limits(**limits)
