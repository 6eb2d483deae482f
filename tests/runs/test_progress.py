"""Progress lines, with a clock that the test turns."""

from __future__ import annotations

import io

import pytest

from sif_trainer.runs.progress import Progress, format_rate, format_seconds


class Clock:
    """Seconds that pass only when told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rate_and_time_left_count_from_this_start() -> None:
    clock, log = Clock(), io.StringIO()
    progress = Progress("sample", total=200, unit="response", done=100, stream=log, clock=clock)
    clock.now += 10
    progress.update(20, "accuracy 0.41")
    assert log.getvalue() == "sample: 120/200 responses (60%), 2 per second, 40s left; accuracy 0.41\n"


def test_a_log_gets_a_line_per_interval_and_the_last_state() -> None:
    clock, log = Clock(), io.StringIO()
    with Progress("vote", total=100, interval=10, stream=log, clock=clock) as progress:
        for _ in range(100):
            clock.now += 0.7
            progress.update()
    counts = [int(line.split()[1].partition("/")[0]) for line in log.getvalue().splitlines()]
    assert counts == [1, 16, 31, 46, 61, 76, 91, 100]
    assert log.getvalue().splitlines()[-1] == "vote: 100/100 steps (100%), 1.43 per second, 1m 10s"


def test_a_terminal_keeps_one_line() -> None:
    clock, screen = Clock(), Terminal()
    with Progress("train", total=2, stream=screen, clock=clock) as progress:
        for _ in range(2):
            clock.now += 60
            progress.update()
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().count("\r") == 2


def test_an_unknown_total_and_an_empty_run_are_fine() -> None:
    clock, log = Clock(), io.StringIO()
    with Progress("read", total=None, unit="line", stream=log, clock=clock) as progress:
        clock.now += 2
        progress.update(3)
    with Progress("nothing", total=0, stream=log, clock=clock):
        pass
    assert log.getvalue() == "read: 3 lines, 1.5 per second, 2s\nnothing: 0/0 steps (100%)\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (59.6, "1m 00s"), (123, "2m 03s"), (3900, "1h 05m"), (276000, "3d 04h")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_slow_rate_is_turned_round() -> None:
    assert format_rate(3.14159, "step") == "3.14 per second"
    assert format_rate(0.2, "step") == "5 seconds per step"
