"""A call in a fresh process: what it returns, how it fails, and that nothing stays behind, even of a killed caller."""

from __future__ import annotations

import decimal
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.fresh_process import ProcessFailed, call_fresh

ROOT = Path(__file__).parents[2]
CALLER = """
import time
from sif_trainer.runs.fresh_process import call_fresh
if __name__ == "__main__":
    call_fresh(time.sleep, 600, preload=[])
"""


def test_a_call_leaves_nothing_behind_for_the_next() -> None:
    assert call_fresh(_leave_a_trace, preload=["decimal"]) == (None, False)
    assert call_fresh(_leave_a_trace, preload=["decimal"]) == (None, False)
    assert "SIF_TRACE" not in os.environ


def test_errors_come_back() -> None:
    with pytest.raises(UserError, match="mine"):
        call_fresh(_refuse, "mine", preload=[])
    with pytest.raises(ProcessFailed, match="ValueError: invalid literal"):
        call_fresh(int, "a", preload=[])
    with pytest.raises(ProcessFailed, match="status -9"):
        call_fresh(_die, preload=[])
    assert call_fresh(int, "7", preload=[]) == 7


def test_no_process_outlives_a_killed_caller(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(CALLER)
    caller = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(ROOT)})
    family: set[int] = set()
    while len(family) < 4:  # the caller, its resource tracker, the server, and the call
        family = _family(caller.pid)
        assert caller.poll() is None
        time.sleep(0.05)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    for _ in range(200):
        if not (left := {pid for pid in family if _alive(pid)}):
            break
        time.sleep(0.05)
    assert not left


def _leave_a_trace() -> tuple[str | None, bool]:
    found = os.environ.get("SIF_TRACE"), hasattr(decimal, "trace")
    os.environ["SIF_TRACE"] = decimal.trace = "here"
    return found


def _refuse(message: str) -> None:
    raise UserError(message)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _family(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*(_family(int(child)) for child in children))


def _alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
