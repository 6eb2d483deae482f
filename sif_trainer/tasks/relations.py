r"""Equations and assignments: `x+2y=4` against `y=2-\frac{x}{2}`, `x=5` against `5`, `x=1, y=2` against `(1,2)`.

Two equations are the same when one is a constant multiple of the other, fractions cleared. A name before the value
(`x=`, `f(x)=`, `P=`, `(x,y)=`) may be left out, but two different variables are different answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sympy

from sif_trainer.tasks.evaluate import TooLarge
from sif_trainer.tasks.shapes import Group, Ratio, Relation, Shape, Value, Words
from sif_trainer.tasks.spelling import canonical
from sif_trainer.tasks.values import Unreadable, constant_ratio, difference

Same = Callable[[Shape, Shape], bool]

_NAME = re.compile(
    r"(?:\\(?:angle|triangle|overline|vec|hat|bar|mathbf|text|operatorname)\s*)?\{?\\?[a-zA-Z][a-zA-Z ]*\}?'*"
    r"(?:_(?:\w+|\{[^{}]*\}))*(?:\^\{?-1\}?)?'*"  # an index, an inverse, primes
    r"(?:\s*\(\s*\\?[a-zA-Z0-9_ ,{}]+\s*\))?"  # a function's argument
    r"|\|[A-Z]+\||\\frac\{d\w?\}\{d\w\}"  # a length, a derivative
)
_LETTER = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")  # a variable; commands and their letters are none
_HEAD = re.compile(r"(.*)\(\s*(\\?[a-zA-Z]+)\s*\)")


def same_equation(gold: Shape, prediction: Shape, same: Same) -> bool:
    """Whether two shapes, at least one of them an equation or a list with equations, are the same answer."""
    if isinstance(gold, Relation) and isinstance(prediction, Relation):
        return _two_equations(gold, prediction, same)
    if isinstance(gold, Group) and isinstance(prediction, Group):
        return _two_lists(gold, prediction, same)
    equation, other, is_gold = (gold, prediction, True) if isinstance(gold, Relation) else (prediction, gold, False)
    if isinstance(equation, Relation):
        named = _assignments(equation)
        if named is not None and isinstance(other, Group) and len(named) > 1:
            return _two_lists(Group("", _as_relations(named)), other, same)
        return any(same(value, other) if is_gold else same(other, value) for value in _values(equation))
    listed, single = (gold, prediction) if isinstance(gold, Group) else (prediction, gold)
    bare = _bare_list(listed) if isinstance(listed, Group) else None
    if bare is None or isinstance(single, Group):
        return False
    return same(bare, single) if listed is gold else same(single, bare)


def same_inequality(gold: Relation, prediction: Relation, same: Same) -> bool:
    """Whether two inequalities in several unknowns are the same: a positive multiple, or both turned around."""
    if len(gold.signs) != len(prediction.signs):
        return False
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    turned = Relation(prediction.sides[::-1], tuple(flipped.get(sign, sign) for sign in prediction.signs[::-1]))
    for other in (prediction, turned):
        if gold.signs == other.signs and all(same(a, b) for a, b in zip(gold.sides, other.sides, strict=True)):
            return True
    if len(gold.signs) > 1:
        return False
    try:
        ratio = constant_ratio(_difference(gold), _difference(prediction))
    except (Unreadable, TooLarge):
        return False
    if ratio is None or not isinstance(ratio, type(abs(ratio))):
        return False
    return gold.signs[0] == (
        prediction.signs[0] if ratio > 0 else flipped.get(prediction.signs[0], prediction.signs[0])
    )


def _two_equations(gold: Relation, prediction: Relation, same: Same) -> bool:
    heads = _head(gold), _head(prediction)
    if heads[0] and heads[1] and (canonical(heads[0]) == canonical(heads[1]) or any(map(_is_description, heads))):
        return same(gold.sides[-1], _same_argument(heads[0], heads[1], prediction.sides[-1]))
    if "~" in gold.signs or "~" in prediction.signs:
        return any(same(a, b) for a in _values(gold) for b in _values(prediction))
    try:
        first, second = _difference(gold), _difference(prediction)
        if constant_ratio(first, second) is not None:
            return True
        return constant_ratio(_numerator(first), _numerator(second)) is not None
    except (Unreadable, TooLarge):
        return len(gold.sides) == len(prediction.sides) and all(
            same(a, b) for a, b in zip(gold.sides, prediction.sides, strict=True)
        )


def _two_lists(gold: Group, prediction: Group, same: Same) -> bool:
    """Lists of which at least one holds equations: all equations, or values once the names are left out."""
    if all(isinstance(part, Relation) for part in (*gold.parts, *prediction.parts)):
        left = list(prediction.parts)
        for part in gold.parts:
            match = next((other for other in left if same(part, other)), None)
            if match is None:
                break
            left.remove(match)
        else:
            return not left
    bare = _bare_list(gold) or gold, _bare_list(prediction) or prediction
    if bare == (gold, prediction):
        return False
    return same(*bare)


def _bare_list(group: Group) -> Group | None:
    """`n=2, 3, 4` and `x=1, x=2` as bare lists of values; `y=2, x=1` as the tuple (1, 2), by name; None for others."""
    parts = group.parts
    if not parts or group.brackets not in ("", "{}"):
        return None
    first = parts[0]
    if isinstance(first, Relation) and _head(first) and not any(isinstance(part, Relation) for part in parts[1:]):
        value = first.sides[-1]
        lead = value.parts if isinstance(value, Group) and not value.brackets else (value,)
        return Group(group.brackets, (*lead, *parts[1:]))
    named = [_assignments(part) if isinstance(part, Relation) else None for part in parts]
    if any(item is None for item in named):
        return None
    pairs = [pair for item in named if item for pair in item]
    names = [name for name, _ in pairs]
    if len({name.split("_")[0] for name in names}) == 1:  # x = 1, x = 2 or x_1 = 1, x_2 = 2
        return Group("", tuple(value for _, value in pairs))
    if len(set(names)) == len(names):
        return Group("()", tuple(value for _, value in sorted(pairs, key=lambda pair: pair[0])))
    return None


def _assignments(relation: Relation) -> list[tuple[str, Shape]] | None:
    """Pairs of name and value: one for `x=5`, two for `(x,y)=(1,2)`; None when it is no assignment."""
    head, value = relation.sides[0], relation.sides[-1]
    if relation.signs[-1:] != ("=",):
        return None
    if isinstance(head, Group) and isinstance(value, Group) and len(head.parts) == len(value.parts):
        return [(canonical(_text(name)), part) for name, part in zip(head.parts, value.parts, strict=True)]
    name = _head(relation)
    return None if name is None else [(canonical(name), value)]


def _as_relations(pairs: list[tuple[str, Shape]]) -> tuple[Shape, ...]:
    return tuple(Relation((Value(name), value), ("=",)) for name, value in pairs)


def _values(relation: Relation) -> list[Shape]:
    """What an equation says the value is: its last side, and the sides an approximation sign joins to it.

    Nothing for an equation that is no assignment and no calculation, such as `x+2y=4`.
    """
    if "~" in relation.signs:
        around = relation.sides[relation.signs.index("~") :]
        return [side for side in around if not _is_name(side)] or [relation.sides[-1]]
    sides = relation.sides[:-1]
    is_calculation = all(isinstance(side, Value) and not _LETTER.search(side.text) for side in sides)
    if _head(relation) is not None or is_calculation or isinstance(sides[0], Group | Ratio):
        return [relation.sides[-1]]
    if _head(Relation(relation.sides[::-1], relation.signs)) is not None:
        return [sides[0]]
    return []


def _head(relation: Relation) -> str | None:
    """The name that an assignment starts with, or None."""
    head = relation.sides[0]
    return head.text if relation.signs[0] == "=" and isinstance(head, Words | Value) and _is_name(head) else None


def _is_name(shape: Shape) -> bool:
    """A variable, a function with its argument, a segment or words: what may be left out before an equals sign."""
    return isinstance(shape, Words) or (isinstance(shape, Value) and bool(_NAME.fullmatch(shape.text)))


def _is_description(name: str | None) -> bool:
    """A function's name with its argument, or a word: not a variable that could be confused with another."""
    if name is None:
        return False
    return bool(_HEAD.fullmatch(name)) or len(re.sub(r"\\[a-zA-Z]+|[^a-zA-Z]", "", name.split("_")[0])) > 2


def _same_argument(gold: str, prediction: str, value: Shape) -> Shape:
    """The prediction's value with its function's variable renamed to the reference's: f(t)=t^2 as f(x)=x^2."""
    first, second = _HEAD.fullmatch(gold), _HEAD.fullmatch(prediction)
    if not first or not second or first.group(2) == second.group(2) or not isinstance(value, Value):
        return value
    pattern = r"(?<![a-zA-Z\\])" + re.escape(second.group(2)) + r"(?![a-zA-Z])"
    return Value(re.sub(pattern, lambda _: first.group(2), value.text), value.unit, value.percent)


def _difference(relation: Relation) -> sympy.Expr:
    sides = [_text(side) for side in (relation.sides[0], relation.sides[-1])]
    if not all(sides):
        raise Unreadable("an equation between things that are no expressions")
    return difference(*sides)


def _numerator(expression: sympy.Expr) -> sympy.Expr:
    return sympy.fraction(sympy.together(expression))[0]


def _text(shape: Shape) -> str:
    return shape.text if isinstance(shape, Value) else ""
