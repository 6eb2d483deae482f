"""The pool of comparing processes: order, limits, replacement, interrupts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from sif_trainer.tasks.workers import Request, Workers

EASY: list[Request] = [("math", "1/2", "0.5", {}), ("math", "1/2", "0.6", {})]
ENDLESS: Request = ("math", r"\binom{30!}{100000000}", "7", {})  # the parser multiplies it out; `grade` screens it


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(num_workers=2, seconds=1.0, memory_mb=1024) as pool:
        yield pool


def test_grades_come_in_the_order_of_the_requests(workers: Workers) -> None:
    grades = workers.run([EASY[index % 2] for index in range(20)])
    assert [grade.score for grade in grades] == [1.0, 0.0] * 10


def test_no_requests_need_no_process() -> None:
    assert Workers().run([]) == []


def test_an_item_that_overruns_is_unparsable_and_the_others_are_graded(workers: Workers) -> None:
    grades = workers.run([EASY[0], ENDLESS, EASY[1], ENDLESS, EASY[0]])
    assert [grade.verdict for grade in grades] == ["correct", "unparsable", "wrong", "unparsable", "correct"]
    assert "longer than 1 s" in grades[1].why or "too large" in grades[1].why


def test_an_item_that_wants_too_much_memory_is_unparsable(workers: Workers) -> None:
    huge = r"\binom{" + "9" * 900 + "}{200000}"
    grades = workers.run([("math", huge, "7", {}), EASY[0]])
    assert [grade.verdict for grade in grades] == ["unparsable", "correct"]


def test_a_process_that_was_killed_between_two_runs_is_replaced(workers: Workers) -> None:
    workers.run(EASY)
    victim = workers._workers[0].process
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert [grade.score for grade in workers.run(EASY * 3)] == [1.0, 0.0] * 3


def test_answers_of_an_interrupted_run_are_not_taken_for_the_next(workers: Workers) -> None:
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # SIGINT itself may be ignored, as in a background job
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        workers.run([ENDLESS] * 10)  # one may end at once, where memory runs out before time does
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert [grade.score for grade in workers.run(EASY)] == [1.0, 0.0]


def test_a_rule_that_raises_makes_the_item_unparsable(workers: Workers) -> None:
    grades = workers.run([("olympiadbench", "4.25", "4.2", {"tolerance": "wide"}), EASY[0]])
    assert [grade.verdict for grade in grades] == ["unparsable", "correct"]
    assert "ValueError" in grades[0].why
