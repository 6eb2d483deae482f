r"""Decide which structures are the same answer: `equal("(-\infty, 3)", "x<3")` is True.

In short: order matters in tuples and not in sets and lists; a partial list is wrong; a set of reals may be written as
an interval, a union, an inequality or a complement; a dropped unit, percent sign or base is right and a different one
wrong; words are compared as words. The policies and their reasons are in docs/benchmarks.md. Runs in the worker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sif_trainer.tasks.choices import letters
from sif_trainer.tasks.regions import as_region, is_exclusion, same_region, unknown
from sif_trainer.tasks.relations import same_equation, same_inequality
from sif_trainer.tasks.shapes import (
    Based,
    Group,
    Matrix,
    Ratio,
    Reals,
    Relation,
    Shape,
    Union,
    Value,
    Words,
    read,
    read_as_list,
)
from sif_trainer.tasks.spelling import canonical, tidy
from sif_trainer.tasks.units import different
from sif_trainer.tasks.values import Unreadable, same_value
from sif_trainer.tasks.words import same_words

_OPTIONS = re.compile(  # \text{(C)}, (C), \text{A, D}
    r"\\text\s*\{\s*\(?[A-Z]\)?(?:\s*,\s*[A-Z])*\s*\}|\(\s*(?:\\text\s*\{\s*)?[A-Z]\s*\}?\s*\)"
)
_MAYBE_LIST = re.compile(r"[1-9]\d{0,2}(?:,[1-9]\d{2})+")  # 343,512


def equal(gold: str, prediction: str, unit: str = "", rtol: float | None = None) -> bool:
    """Whether `prediction` is the answer `gold`, as raw texts.

    `unit`: the unit that the question fixes. `rtol`: a relative tolerance for numbers. Raises `Unreadable` when a part
    could not be read and no other reading makes both equal.
    """
    if _OPTIONS.fullmatch(tidy(gold)):
        return letters(prediction) == letters(gold)
    comparison = _Comparison(rtol)
    first, second = with_unit(read(gold), unit), read(prediction)
    if comparison.same(first, second):
        return True
    if isinstance(first, Group) and _MAYBE_LIST.fullmatch(tidy(prediction)):
        return comparison.same(first, read_as_list(prediction))
    if isinstance(second, Group) and _MAYBE_LIST.fullmatch(tidy(gold)):
        return comparison.same(read_as_list(gold), second)
    if comparison.unreadable:
        raise Unreadable(comparison.unreadable)
    return False


def with_unit(shape: Shape, unit: str) -> Shape:
    """A value with the unit that the question fixes, where it states none itself."""
    unit = unit.strip(" $")
    if not unit or not isinstance(shape, Value) or shape.unit or shape.percent:
        return shape
    if unit in ("%", "\\%"):
        return Value(shape.text, percent=True)
    dressed = read(f"1\\text{{{unit}}}")
    return Value(shape.text, dressed.unit) if isinstance(dressed, Value) else shape


class _Comparison:
    """One comparison with its tolerance; `unreadable` says which part could not be read, if any."""

    def __init__(self, rtol: float | None = None) -> None:
        self.rtol = rtol
        self.unreadable = ""

    def same(self, gold: Shape, prediction: Shape) -> bool:
        """Whether two shapes are the same answer."""
        gold, prediction = _lone(gold), _lone(prediction)
        pair = (gold, prediction)
        if gold == prediction:
            return True
        if any(isinstance(shape, Words) for shape in pair):
            return same_words(gold, prediction)
        if any(map(_is_region, pair)):
            return self._regions(gold, prediction)
        if any(isinstance(shape, Relation) or _has_relation(shape) for shape in pair):
            return same_equation(gold, prediction, self.same)
        if any(isinstance(shape, Matrix) for shape in pair):
            return self._matrices(gold, prediction)
        if any(isinstance(shape, Based) for shape in pair):
            return _same_digits(gold, prediction)
        if isinstance(gold, Group) and isinstance(prediction, Group):
            return self._groups(gold, prediction)
        if isinstance(gold, Ratio) and isinstance(prediction, Ratio):
            return self._ratios(gold, prediction)
        if any(isinstance(shape, Ratio) for shape in pair):
            return self._numbers(_quotient(gold), _quotient(prediction))
        if isinstance(gold, Value) and isinstance(prediction, Value):
            return self._values(gold, prediction)
        return False

    def _values(self, gold: Value, prediction: Value) -> bool:
        """Numbers with units and percent signs; a percent sign on one side only may be dropped: 50% is 50 or 0.5."""
        if different(gold.unit, prediction.unit):
            return False
        if self._numbers(gold.text, prediction.text):
            return True
        if gold.percent == prediction.percent:
            return False
        shares = [f"\\frac{{{side.text}}}{{100}}" if side.percent else side.text for side in (gold, prediction)]
        return self._numbers(*shares)

    def _numbers(self, gold: str, prediction: str) -> bool:
        if not gold or not prediction:
            return False
        if canonical(gold) == canonical(prediction):
            return True
        try:
            return same_value(gold, prediction, self.rtol)
        except Unreadable as error:
            self.unreadable = str(error)
            return False

    def _ratios(self, gold: Ratio, prediction: Ratio) -> bool:
        """Part by part; unreduced ratios are equal too, but times of day are not."""
        if different(gold.unit, prediction.unit) or len(gold.parts) != len(prediction.parts):
            return False
        if self._in_order(gold.parts, prediction.parts):
            return True
        if _is_clock(gold) or _is_clock(prediction):
            return False
        return all(
            self._numbers(f"({_text(a)})({_text(prediction.parts[0])})", f"({_text(b)})({_text(gold.parts[0])})")
            for a, b in zip(gold.parts[1:], prediction.parts[1:], strict=True)
        )

    def _groups(self, gold: Group, prediction: Group) -> bool:
        if gold.brackets == prediction.brackets == "{}":
            return self._covers(gold.parts, prediction.parts) and self._covers(prediction.parts, gold.parts)
        if not _brackets_agree(gold, prediction):
            return False
        if _is_ordered(gold, prediction):
            return self._in_order(gold.parts, prediction.parts)
        return self._in_any_order(gold.parts, prediction.parts)

    def _in_order(self, gold: Sequence[Shape], prediction: Sequence[Shape]) -> bool:
        return len(gold) == len(prediction) and all(self.same(a, b) for a, b in zip(gold, prediction, strict=True))

    def _in_any_order(self, gold: Sequence[Shape], prediction: Sequence[Shape]) -> bool:
        """Each part of the prediction stands for exactly one part of the reference."""
        left = list(prediction)
        for part in gold:
            match = next((index for index, other in enumerate(left) if self.same(part, other)), None)
            if match is None:
                return False
            del left[match]
        return not left

    def _covers(self, parts: Sequence[Shape], others: Sequence[Shape]) -> bool:
        """Whether each part is among the others: sets may repeat an element."""
        return all(any(self.same(part, other) for other in others) for part in parts)

    def _matrices(self, gold: Shape, prediction: Shape) -> bool:
        tables = _rows(gold), _rows(prediction)
        if isinstance(gold, Group) or isinstance(prediction, Group):  # a tuple is a vector, standing or lying
            tables = _as_vector(tables[0]), _as_vector(tables[1])
        return len(tables[0]) == len(tables[1]) and all(
            self._in_order(row, other) for row, other in zip(*tables, strict=True)
        )

    def _regions(self, gold: Shape, prediction: Shape) -> bool:
        variables = unknown(gold), unknown(prediction)
        if variables[0] and variables[1] and variables[0].casefold() != variables[1].casefold():
            return False
        first, second = as_region(gold), as_region(prediction)
        if first is not None and second is not None and same_region(first, second, self._numbers):
            return True
        if isinstance(gold, Relation) and isinstance(prediction, Relation):
            return same_inequality(gold, prediction, self.same)
        if isinstance(gold, Union) and isinstance(prediction, Union) and gold.without == prediction.without:
            return self._in_any_order(gold.parts, prediction.parts)
        return isinstance(gold, Group) and isinstance(prediction, Group) and self._groups(gold, prediction)


def _lone(shape: Shape) -> Shape:
    r"""A group of one part is that part, and `x \in \{1,2\}` is the set."""
    while isinstance(shape, Group) and len(shape.parts) == 1:
        shape = shape.parts[0]
    if isinstance(shape, Relation) and shape.signs == ("in",):
        members = shape.sides[1]
        if isinstance(members, Group) and members.brackets == "{}":
            return _lone(members)
    return shape


def _is_region(shape: Shape) -> bool:
    """Whether a shape can only be a set of reals."""
    if isinstance(shape, Relation):
        return any(sign not in ("=", "~") for sign in shape.signs)
    if not isinstance(shape, Group):
        return isinstance(shape, Reals | Union)
    if not shape.brackets:
        parts = shape.parts[:1] if is_exclusion(shape) else shape.parts
        return bool(parts) and all(map(_is_region, parts))
    is_unbounded = any("\\infty" in _text(part) for part in shape.parts)
    return len(shape.parts) == 2 and (shape.brackets in ("(]", "[)") or is_unbounded)


def _has_relation(shape: Shape) -> bool:
    """Whether a bare list holds equations."""
    return isinstance(shape, Group) and not shape.brackets and any(isinstance(part, Relation) for part in shape.parts)


def _brackets_agree(gold: Group, prediction: Group) -> bool:
    """A bare list fits any brackets, braces fit only braces; round and square differ around two parts, an interval."""
    kinds = {gold.brackets, prediction.brackets}
    if len(kinds) == 1 or "" in kinds:
        return True
    return "{}" not in kinds and (len(gold.parts) != 2 or "\u27e8\u27e9" in kinds)


def _is_ordered(gold: Group, prediction: Group) -> bool:
    """Order matters unless the reference is a set or a bare list; with an ellipsis it always does."""
    has_ellipsis = any("\\ldots" in _text(part) for part in (*gold.parts, *prediction.parts))
    return has_ellipsis or gold.brackets not in ("", "{}")


def _is_clock(ratio: Ratio) -> bool:
    """Hours and two-digit minutes: a time of day, which is not reduced like a ratio."""
    return bool(re.fullmatch(r"\d{1,2}:[0-5]\d", ":".join(map(_text, ratio.parts))))


def _quotient(shape: Shape) -> str:
    """A ratio of two parts as a fraction; a value as it is."""
    if isinstance(shape, Ratio):
        return f"\\frac{{{_text(shape.parts[0])}}}{{{_text(shape.parts[1])}}}" if len(shape.parts) == 2 else ""
    return _text(shape)


def _same_digits(gold: Shape, prediction: Shape) -> bool:
    """Equal digits, and equal bases where both state one."""
    if isinstance(gold, Based) and isinstance(prediction, Based):
        return gold == prediction
    digits = [shape.digits if isinstance(shape, Based) else _text(shape).upper() for shape in (gold, prediction)]
    return digits[0].lstrip("0") == digits[1].lstrip("0")


def _rows(shape: Shape) -> list[list[Shape]]:
    """Rows of a matrix, of a list of lists, or of a tuple as one row; none for what is no table."""
    if isinstance(shape, Matrix):
        factor = {"": "1", "-": "-1"}.get(shape.factor, shape.factor)
        if factor == "1":
            return [list(row) for row in shape.rows]
        return [[Value(f"({factor})({_text(cell)})") for cell in row] for row in shape.rows]
    if not isinstance(shape, Group):
        return []
    rows = [list(part.parts) for part in shape.parts if isinstance(part, Group) and part.brackets]
    return rows if len(rows) == len(shape.parts) else [list(shape.parts)]


def _as_vector(rows: list[list[Shape]]) -> list[list[Shape]]:
    """A single column as a row."""
    return [[row[0] for row in rows]] if all(len(row) == 1 for row in rows) else rows


def _text(shape: Shape) -> str:
    return shape.text if isinstance(shape, Value) else ""
