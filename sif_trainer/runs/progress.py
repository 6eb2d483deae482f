"""How far a run is: done of total, rate and time left, readable in a terminal and in a log file.

    with Progress("sample", total=500, unit="response", done=already_there) as progress:
        for ...:
            progress.update(1, "accuracy 0.41")

    sample: 120/500 responses (24%), 3.1 per second, 2m 03s left; accuracy 0.41

A terminal shows one line that changes; anything else gets a new line every `interval` seconds, so that a log of a long
run stays short.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


def format_seconds(seconds: float) -> str:
    """Write a duration in its two largest units: 42s, 2m 03s, 1h 05m, 3d 04h."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days}d {h:02}h"
    if hours:
        return f"{h}h {m:02}m"
    return f"{m}m {s:02}s" if minutes else f"{s}s"


def format_rate(per_second: float, unit: str) -> str:
    """Write a rate so that its number is easy to read: `3.1 per second`, or `4.2 seconds per step` for a slow unit."""
    return f"{per_second:.3g} per second" if per_second >= 1 else f"{1 / per_second:.3g} seconds per {unit}"


class Progress:
    """Lines of progress on `stream`; `done` units were there before this start and do not count for the rate.

    Args:
        label: what is going on; begins every line.
        total: units in all, or None when not known.
        unit: one unit's name, singular.
        done: units finished by an earlier start.
        interval: least seconds between two lines of a log (a terminal's line changes up to ten times a second).
        stream: standard error by default.
        clock: seconds, from any origin.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        unit: str = "step",
        done: int = 0,
        interval: float = 10.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.total, self.unit, self.done = label, total, unit, done
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._interval = min(interval, 0.1) if self._terminal else interval
        self._clock = clock
        self._before, self._start = done, clock()
        self._shown_at = -float("inf")
        self._shown_done, self._note = -1, ""

    def update(self, num: int = 1, note: str = "") -> None:
        """Count `num` more finished units; `note` follows the numbers until the next one replaces it."""
        self.done += num
        self._note = note or self._note
        if self._clock() - self._shown_at >= self._interval:
            self._show()

    def line(self) -> str:
        """Return the line as it stands."""
        parts = [f"{self.label}: {self.done} {self.unit}s"]
        if self.total is not None:
            share = self.done / self.total if self.total else 1.0
            parts = [f"{self.label}: {self.done}/{self.total} {self.unit}s ({share:.0%})"]
        elapsed, finished = self._clock() - self._start, self.done - self._before
        if finished and elapsed > 0:
            parts.append(format_rate(finished / elapsed, self.unit))
            if self.total is not None and self.done < self.total:
                parts.append(f"{format_seconds((self.total - self.done) * elapsed / finished)} left")
            else:
                parts.append(format_seconds(elapsed))
        return ", ".join(parts) + (f"; {self._note}" if self._note else "")

    def close(self) -> None:
        """Show the last state, if it is not on screen, and end the line."""
        if self._shown_done != self.done:
            self._show()
        if self._terminal:
            print(file=self._stream, flush=True)

    def _show(self) -> None:
        self._shown_at, self._shown_done = self._clock(), self.done
        if self._terminal:
            print(f"\r\033[K{self.line()}", end="", file=self._stream, flush=True)
        else:
            print(self.line(), file=self._stream, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
