"""The process that compares answers: one JSON request a line in, one JSON grade a line out.

Started by `workers.py` as `python -m sif_trainer.tasks.worker MEMORY_MB`; it imports sympy and math-verify's parser,
nothing heavier. An item that overruns is interrupted by an alarm; one stuck in compiled code is ended by the parent,
or by the processor limit when the parent is gone. Memory is capped, so that a huge number raises `MemoryError` here
and nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from types import FrameType
from typing import NoReturn, TextIO

from sif_trainer.tasks.rules import judge
from sif_trainer.tasks.verdict import Grade


class Overrun(BaseException):
    """Not an Exception: libraries that swallow those must not swallow the alarm."""


def _raise_overrun(signum: int, frame: FrameType | None) -> NoReturn:
    raise Overrun


def main() -> None:
    """Serve requests until stdin closes."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not get between the lines
    judge("\\frac{x^{2}+1}{\\sqrt{2}}", "x", "math", {})  # imports, and the parser's tables, outside any item's time
    memory = int(sys.argv[1]) << 20
    with contextlib.suppress(ValueError, OSError):  # macOS knows no such limit
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGALRM, _raise_overrun)
    sys.setrecursionlimit(2000)
    _write(out, ["ready"])
    for line in sys.stdin:
        grade = _grade(*json.loads(line))
        _write(out, [grade.score, grade.verdict, grade.extracted, grade.why])


def _grade(seconds: float, rule: str, prediction: str, gold: str, fields: dict[str, object]) -> Grade:
    """The grade, or "unparsable" for what takes too long or too much, or is more than a library can stand."""
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + int(4 * seconds) + 2, resource.RLIM_INFINITY))
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return judge(prediction, gold, rule, fields)
    except Overrun:
        return Grade.unparsable(prediction, f"comparing took longer than {seconds:g} s")
    except (MemoryError, RecursionError):
        return Grade.unparsable(prediction, "too large to compare")
    except Exception as error:  # sympy and the parser raise anything on odd input; an answer is due all the same
        return Grade.unparsable(prediction, f"could not be compared ({type(error).__name__})")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _write(out: TextIO, message: list[object]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
