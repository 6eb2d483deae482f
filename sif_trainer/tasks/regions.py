r"""Sets of real numbers: intervals, unions, complements and inequalities brought to one list of pieces and compared.

`x<3`, `(-\infty,3)` and `]-\infty,3[` give the same piece. End points keep their text, so that they are compared
exactly; where all are numbers, pieces are sorted and joined first. An inequality that is not of the form `x < a` is
solved by sympy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy

from sif_trainer.tasks.evaluate import TooLarge
from sif_trainer.tasks.shapes import Group, Reals, Relation, Shape, Union, Value, Words
from sif_trainer.tasks.spelling import tidy
from sif_trainer.tasks.values import Unreadable, difference, magnitude


@dataclass(frozen=True)
class Piece:
    """An interval, or a point when both ends are the same and closed."""

    start: str
    end: str
    open_start: bool
    open_end: bool


_LINE = Piece("-\\infty", "\\infty", True, True)
_VARIABLE = re.compile(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?(?:\([a-zA-Z]\))?")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "=": "="}


def as_region(shape: Shape) -> list[Piece] | None:
    """The pieces of a shape that can be a set of reals, or None."""
    if isinstance(shape, Reals):
        return [_LINE]
    if isinstance(shape, Value):
        return [Piece(shape.text, shape.text, False, False)]
    if isinstance(shape, Union):
        return _union(shape)
    if isinstance(shape, Relation):
        return _from_relation(shape)
    if isinstance(shape, Group):
        return _from_group(shape)
    return None


def unknown(shape: Shape) -> str | None:
    """The variable of an inequality such as `2 < x`, or None."""
    if not isinstance(shape, Relation) or "in" in shape.signs:
        return None
    return next((side.text for side in shape.sides if isinstance(side, Value) and _is_variable(side)), None)


def is_exclusion(group: Group) -> bool:
    r"""Whether a bare list is one exclusion of several values: `x \neq 0, 1`."""
    first, *rest = group.parts
    return (
        isinstance(first, Relation)
        and first.signs == ("!=",)
        and bool(rest)
        and all(isinstance(part, Value) for part in rest)
    )


def same_region(first: list[Piece], second: list[Piece], same_number: Callable[[str, str], bool]) -> bool:
    """Whether two lists of pieces are the same set."""
    first, second = _joined(first), _joined(second)
    if len(first) != len(second):
        return False
    left = list(second)
    for piece in first:
        match = next((other for other in left if _same_piece(piece, other, same_number)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_piece(first: Piece, second: Piece, same_number: Callable[[str, str], bool]) -> bool:
    return (
        (first.open_start, first.open_end) == (second.open_start, second.open_end)
        and same_number(first.start, second.start)
        and same_number(first.end, second.end)
    )


def _union(shape: Union) -> list[Piece] | None:
    pieces: list[Piece] = []
    for part in shape.parts:
        region = as_region(part)
        if region is None:
            return None
        pieces += region
    if shape.without is None:
        return pieces
    removed = as_region(shape.without)
    return None if removed is None else _without(pieces, removed)


def _from_group(shape: Group) -> list[Piece] | None:
    if shape.brackets == "":
        first = shape.parts[0]
        if isinstance(first, Relation) and is_exclusion(shape):
            return _half_line("!=", Group("{}", (first.sides[1], *shape.parts[1:])))
        regions = [as_region(part) for part in shape.parts]
        known = [region for region in regions if region is not None]
        if len(known) < len(regions):
            return None
        if all(isinstance(part, Relation) and part.signs != ("in",) for part in shape.parts):
            common = _intersection(known)
            if common is None or common:  # conditions that exclude one another are alternatives
                return common
        return [piece for region in known for piece in region]
    if shape.brackets == "{}":
        if all(isinstance(part, Value) for part in shape.parts):
            return [Piece(part.text, part.text, False, False) for part in shape.parts if isinstance(part, Value)]
        return None
    ends = [part.text for part in shape.parts if isinstance(part, Value)]
    if len(ends) != 2 or len(shape.parts) != 2 or shape.brackets == "\u27e8\u27e9":
        return None
    start, end = (re.sub(r"^\+", "", text) for text in ends)
    return [
        Piece(start, end, shape.brackets[0] == "(" or "infty" in start, shape.brackets[1] == ")" or "infty" in end)
    ]


def _from_relation(relation: Relation) -> list[Piece] | None:
    sides, signs = relation.sides, relation.signs
    if signs[-1] == "in":
        region = as_region(sides[-1])
        return None if region is None or isinstance(sides[-1], Words) else region
    if len(signs) == 1 and signs[0] in _FLIPPED:
        if _is_variable(sides[0]):
            return _half_line(signs[0], sides[1])
        if _is_variable(sides[1]):
            return _half_line(_FLIPPED[signs[0]], sides[0])
        return _solved(relation)
    if len(signs) == 2 and _is_variable(sides[1]):
        halves = [_half_line(_FLIPPED.get(signs[0], ""), sides[0]), _half_line(signs[1], sides[2])]
        if halves[0] is None or halves[1] is None:
            return None
        starts, ends = sorted((halves[0][0], halves[1][0]), key=lambda half: half.start == "-\\infty")
        return [Piece(starts.start, ends.end, starts.open_start, ends.open_end)]
    return None


def _is_variable(shape: Shape) -> bool:
    return isinstance(shape, Value) and bool(_VARIABLE.fullmatch(shape.text)) and shape.text not in ("e", "\\pi")


def _half_line(sign: str, bound: Shape) -> list[Piece] | None:
    """The numbers x with `x sign bound`."""
    if sign == "!=":
        removed = as_region(bound)
        return None if removed is None else _without([_LINE], removed)
    if not isinstance(bound, Value):
        return None
    if sign in ("<", "<="):
        return [Piece("-\\infty", bound.text, True, sign == "<")]
    if sign in (">", ">="):
        return [Piece(bound.text, "\\infty", sign == ">", True)]
    return None


def _solved(relation: Relation) -> list[Piece] | None:
    """Pieces of an inequality in one unknown, solved by sympy."""
    left, right = relation.sides
    if not isinstance(left, Value) or not isinstance(right, Value) or relation.signs[0] not in "<=>=!=":
        return None
    try:
        side = difference(left.text, right.text)
        if len(side.free_symbols) != 1:
            return None
        kind = {"<": sympy.Lt, ">": sympy.Gt, "<=": sympy.Le, ">=": sympy.Ge, "!=": sympy.Ne}[relation.signs[0]]
        solution = sympy.solveset(kind(side, 0), next(iter(side.free_symbols)), sympy.Reals)
    except (Unreadable, TooLarge, NotImplementedError, ValueError, TypeError, KeyError):
        return None
    return _from_sympy(solution)


def _from_sympy(solution: sympy.Set) -> list[Piece] | None:
    if isinstance(solution, sympy.Interval):
        ends = [tidy(sympy.latex(end)) for end in (solution.start, solution.end)]
        return [Piece(ends[0], ends[1], bool(solution.left_open), bool(solution.right_open))]
    if isinstance(solution, sympy.FiniteSet):
        points = [tidy(sympy.latex(point)) for point in solution]
        return [Piece(point, point, False, False) for point in points]
    if isinstance(solution, sympy.Union):
        parts = [_from_sympy(part) for part in solution.args]
        return None if any(part is None for part in parts) else [piece for part in parts if part for piece in part]
    return None


def _intersection(regions: list[list[Piece]]) -> list[Piece] | None:
    """Common part of regions, or None when some end is no number."""
    common = regions[0]
    for region in regions[1:]:
        pieces = [_common(first, second) for first in common for second in region]
        if None in pieces:
            return None
        common = [piece for piece in pieces if piece is not None and not _is_empty(piece)]
    return common


def _common(first: Piece, second: Piece) -> Piece | None:
    """Common part of two pieces (it may be empty), or None when some end is no number."""
    if any(math.isnan(_size(text)) for text in (first.start, second.start, first.end, second.end)):
        return None
    start = max((first, second), key=lambda piece: (_size(piece.start), piece.open_start))
    end = min((first, second), key=lambda piece: (_size(piece.end), not piece.open_end))
    return Piece(start.start, end.end, start.open_start, end.open_end)


def _is_empty(piece: Piece) -> bool:
    length = _size(piece.end) - _size(piece.start)
    return length < 0 or (length == 0 and (piece.open_start or piece.open_end))


def _without(pieces: list[Piece], removed: list[Piece]) -> list[Piece] | None:
    """Pieces less points or intervals, or None when some end is no number."""
    for hole in removed:
        before = Piece("-\\infty", hole.start, True, not hole.open_start)
        after = Piece(hole.end, "\\infty", not hole.open_end, True)
        left = [_common(piece, side) for piece in pieces for side in (before, after)]
        if None in left:
            return None
        pieces = [piece for piece in left if piece is not None and not _is_empty(piece)]
    return pieces


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Sorted and with touching pieces joined, where all ends are numbers; else unchanged."""
    if any(math.isnan(_size(piece.start) + _size(piece.end)) for piece in pieces if piece != _LINE):
        return pieces
    joined: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (_size(piece.start), piece.open_start)):
        last = joined[-1] if joined else None
        if last is None or not _touch(last, piece):
            joined.append(piece)
        elif (_size(piece.end), not piece.open_end) > (_size(last.end), not last.open_end):
            joined[-1] = replace(last, end=piece.end, open_end=piece.open_end)
    return joined


def _touch(first: Piece, second: Piece) -> bool:
    """Whether the second piece, which starts later, overlaps the first or goes on where it ends."""
    gap = _size(second.start) - _size(first.end)
    if abs(gap) <= 1e-12 * max(1.0, abs(_size(second.start))):
        return not (second.open_start and first.open_end)
    return gap < 0


def _size(text: str) -> float:
    """The number an end stands for, to order ends by; NaN for one with symbols. Equality is decided on the texts."""
    size = magnitude(text)
    return math.nan if size is None else float(size)
