"""What a page is made of: sections of plots and tables, as plain values. kinds/ makes them, page.py draws them.

Section("The vote", [Plot("Kept", "step", "rate", [Series("kept", steps, rates)], percent=True)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Literal

Values = Mapping[str, Any]
_NORMAL = 1.96  # standard errors to each side of a 95 % interval


@dataclass(frozen=True)
class Series:
    """Points of one label; `low` and `high`, where given, are the ends of their intervals."""

    label: str
    x: Sequence[Any]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    faint: bool = False
    """Behind the others, without a place in the legend: a single seed, the steps under their moving mean."""

    @property
    def summary(self) -> str:
        """The series in a sentence, for those who cannot see it."""
        there = [(x, y) for x, y in zip(self.x, self.y, strict=True) if y is not None]
        if not there:
            return f"{self.label}: nothing recorded"
        (first, start), (last, end) = there[0], there[-1]
        (_, least), (_, most) = min(there, key=lambda p: p[1]), max(there, key=lambda p: p[1])
        return f"{self.label}: {start:.3g} at {first}, {end:.3g} at {last}, between {least:.3g} and {most:.3g}"


@dataclass(frozen=True)
class Plot:
    """A figure: lines with bands, points with error bars, or shares stacked to 1."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    note: str = ""
    form: Literal["lines", "points", "stack"] = "lines"
    percent: bool = False
    """Whether y is a fraction that is shown as percent, from 0 to 100 %."""

    @property
    def summary(self) -> str:
        """The figure in words."""
        return f"{self.title}. " + "; ".join(series.summary for series in self.series if not series.faint)


@dataclass(frozen=True)
class Table:
    """Rows of texts under a header."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, a few sentences, and what is shown under it."""

    title: str
    parts: Sequence[Plot | Table] = field(default_factory=list)
    texts: Sequence[str] = field(default_factory=list)


def curve(label: str, rows: Iterable[Values], name: str) -> Series:
    """Return what rows of `step` recorded under a name; with its interval where they have `<name>_low` and `_high`."""
    there = [row for row in rows if row.get(name) is not None]
    steps, values = [row["step"] for row in there], [row[name] for row in there]
    if not there or f"{name}_low" not in there[0]:
        return Series(label, steps, values)
    return Series(label, steps, values, [row[f"{name}_low"] for row in there], [row[f"{name}_high"] for row in there])


def smooth(raw: Series) -> list[Series]:
    """Return a curve over steps as faint points and their moving mean, over a tenth of the steps and at least 5.

    The band is the mean's 95 % interval over those steps, as if they were independent: how far it may be trusted by
    eye, no test.
    """
    values, half = [y for y in raw.y if y is not None], max(len(raw.y) // 10, 5) // 2
    if len(values) < 4 * half:
        return [raw]
    means, errors = [], []
    for place in range(len(values)):
        near = values[max(place - half, 0) : place + half + 1]
        means.append(fmean(near))
        errors.append(_NORMAL * stdev(near) / len(near) ** 0.5)
    band = ([m - e for m, e in zip(means, errors, strict=True)], [m + e for m, e in zip(means, errors, strict=True)])
    return [Series(raw.label, raw.x, raw.y, faint=True), Series(raw.label, raw.x, means, *band)]


def estimates(label: str, found: Mapping[Any, Values]) -> Series:
    """Return estimates (`value` or `mean`, `low`, `high`) by name, for a plot of points."""
    middle = [e.get("value", e.get("mean")) for e in found.values()]
    return Series(label, list(found), middle, [e["low"] for e in found.values()], [e["high"] for e in found.values()])


def percent(value: float | None, sign: str = "") -> str:
    """Write a fraction as percent; a dash where there is none."""
    return "-" if value is None else f"{100 * value:{sign}.1f}"


def interval(estimate: Values | None, sign: str = "", write: Callable[..., str] = percent) -> str:
    """Write an estimate with its interval: `41.2 [38.0, 44.5]`; a dash where there is none."""
    if not estimate:
        return "-"
    middle = estimate.get("value", estimate.get("mean"))
    if estimate.get("num") == 1:  # of a single run: there is no interval
        return write(middle, sign)
    return f"{write(middle, sign)} [{write(estimate['low'], sign)}, {write(estimate['high'], sign)}]"


def number(value: float | None, sign: str = "") -> str:
    """Write a number to three digits after the point; whole ones as they are, a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:{sign}}" if isinstance(value, int) else f"{value:{sign}.3f}"
