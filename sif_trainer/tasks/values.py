r"""Decide whether two expressions have the same value: exact rationals first, else numbers of 60 digits at fixed
points.

`same_value(r"\frac{\sqrt{12}}{4}", r"\sqrt{3}/2")` is True. math-verify's LaTeX parser builds the expression;
evaluating is ours (`evaluate.py`), because a parsed tower of exponents must be refused, not computed. Exact golds need
exact values: only a written decimal is given a relative tolerance (1e-6; a rule may allow more), and it is relative so
that tiny numbers are told apart.

Runs in the worker process.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from sympy.core.function import AppliedUndef

from sif_trainer.tasks.evaluate import Point, TooLarge, Undefined, evaluate, exact, points
from sif_trainer.tasks.numbers import has_decimal, number

DECIMAL_RTOL = Fraction(1, 10**6)
_CONFIG = ConversionConfig(interpret_as_mixed_fractions=False, lowercase_symbols=False)
_POINTS_NEEDED = 3


class Unreadable(Exception):
    """A text that the parser refuses as mathematics, or that is too large to evaluate."""


def same_value(first: str, second: str, rtol: float | None = None) -> bool:
    """Whether two tidy texts are equal values or identically equal expressions. Raises `Unreadable`.

    Exact values are compared exactly. With a decimal on either side, or with `rtol`, a difference of 1e-6 (or `rtol`)
    relative to the larger one is allowed. Where a spelling has two readings (the base of a bare log, `1/2x`), either
    may match.
    """
    tolerance = Fraction(rtol) if rtol else DECIMAL_RTOL if has_decimal(first) or has_decimal(second) else Fraction(0)
    numbers = number(first), number(second)
    if numbers[0] is not None and numbers[1] is not None:
        return close(numbers[0], numbers[1], tolerance)
    try:
        return any(
            _same_expression(parse(one), parse(other), tolerance)
            for one, other in dict.fromkeys((rewrite(first), rewrite(second)) for rewrite in _READINGS)
        )
    except TooLarge as error:
        raise Unreadable("too large to evaluate") from error


_READINGS = (
    lambda text: text,
    lambda text: re.sub(r"\\log(?![a-zA-Z_ ])|\\log\s+(?!_)", r"\\ln ", text),
    lambda text: re.sub(r"/\s*(\d+)\s*(?=[a-zA-Z\\])", r"/\1\\cdot ", text),
)


def close(first: Fraction, second: Fraction, rtol: Fraction) -> bool:
    """Equality within a tolerance relative to the larger magnitude, in exact arithmetic."""
    return abs(first - second) <= rtol * max(abs(first), abs(second))


@lru_cache(maxsize=2048)
def parse(text: str) -> sympy.Expr:
    """A sympy expression for a tidy text, not evaluated. Raises `Unreadable`."""
    plain = number(text)
    if plain is not None:
        return sympy.Rational(plain.numerator, plain.denominator)
    if _NO_MATHS.search(text) or text.count("{") != text.count("}"):
        raise Unreadable("not readable as mathematics")
    try:
        expression = latex2sympy(
            _parser_spelling(text), is_real=True, normalization_config=None, conversion_config=_CONFIG
        )
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # the parser raises bare Exceptions for what it cannot read
        raise Unreadable("not readable as mathematics") from error
    if not isinstance(expression, sympy.Expr):
        raise Unreadable("not an expression")
    return _plain_symbols(expression)


def _plain_symbols(expression: sympy.Expr) -> sympy.Expr:
    """`i` as the imaginary unit, `f(x)` as a product, and anything that is not arithmetic as a symbol with its own
    name.
    """
    is_infinite = expression.has(sympy.oo) and expression.has(sympy.Sum, sympy.Product)
    if is_infinite or expression.has(sympy.Integral, sympy.Derivative, sympy.Limit):
        expression = expression.doit()
    if expression.has(AppliedUndef, sympy.Integral, sympy.Derivative, sympy.Limit):
        expression = expression.replace(
            lambda node: isinstance(node, AppliedUndef | sympy.Integral | sympy.Derivative | sympy.Limit),
            lambda node: (
                sympy.Symbol(node.func.__name__, real=True) * node.args[0]
                if isinstance(node, AppliedUndef) and len(node.args) == 1
                else sympy.Symbol(str(node), real=True)
            ),
        )
    imaginary = sympy.Symbol("i", real=True)
    return expression.xreplace({imaginary: sympy.I}) if imaginary in expression.free_symbols else expression


_NO_MATHS = re.compile(r"[^ -~]|[#$@\"?`;]")  # saves the slow parser a look
_MIXED = re.compile(r"(?<![\d.}a-zA-Z^_])(\d+)\s*(\\frac\{\s*\d+\s*\}\{\s*\d+\s*\})")
_SPELLINGS = (
    (re.compile(r"(\d)[eE]([-+]?\d+)"), r"\1\\cdot 10^{\2}"),
    (
        re.compile(r"(?<![_^]\d)(?<=\d)\s*(?=\(|\\sqrt|\\frac)|\)\s*(?=\(|\d|\\frac|\\sqrt)"),
        lambda match: match.group() + r"\cdot ",
    ),
    (re.compile(r"\\times"), r"\\cdot "),
    (re.compile(r"\*"), r"\\cdot "),
    (re.compile(r"\^\{\\circ\}"), r"\\cdot\\frac{\\pi}{180}"),
    (re.compile(r"\\lg(?![a-zA-Z])"), r"\\log_{10}"),
    (re.compile(r"\\(max|min)\s*\\\{([^{}]*)\\\}"), r"\\\1(\2)"),
    (re.compile(r"_\s*\{\s*\\([a-zA-Z]+)\s*\}|_\\([a-zA-Z]+)"), r"_{\1\2}"),
    (re.compile(r"(?<![a-zA-Z\\])E(?=_)"), r"\\Xi"),  # a bare E is a symbol to the parser, one with an index is not
    (re.compile(r"\^(?:\*|\{\s*\*\s*\})"), ""),
    (re.compile(r"\\text\s*\{([^{}]*)\}"), lambda match: re.sub(r"\W", "", match.group(1))),
    (re.compile(r"(\\(?:sin|cos|tan|cot|sec|csc))\^\{-1\}"), lambda match: f"\\arc{match.group(1)[1:]}"),
    (re.compile(r"([a-zA-Z])'+"), r"\1_{prime}"),
    (re.compile(r"(?<!\\)%"), r"\\cdot\\frac{1}{100}"),
)


def _parser_spelling(text: str) -> str:
    """What the parser needs spelled out: products of numbers and brackets, mixed numbers, powers of ten."""
    text = _MIXED.sub(r"(\1+\2)", text)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return text


def _same_expression(first: sympy.Expr, second: sympy.Expr, rtol: Fraction) -> bool:
    if first == second:
        return True
    exact_first, exact_second = exact(first), exact(second)
    if exact_first is not None and exact_second is not None:
        return close(exact_first, exact_second, rtol)
    first, second = _one_case(first, second)
    is_strict = first.has(sympy.Abs) != second.has(
        sympy.Abs
    )  # ln|x| is not ln x; sqrt(x)sqrt(y) may pass for sqrt(xy)
    num_agreed = num_points = 0
    for point in points(first, second):
        values = _values(first, second, point)
        if None not in values:
            if not _close(first, second, point, rtol):
                return False
            num_agreed += 1
        elif is_strict and values != (None, None):
            return False
        num_points += 1
    return num_agreed >= min(num_points, _POINTS_NEEDED)


def _values(first: sympy.Expr, second: sympy.Expr, point: Point) -> tuple[Any, Any]:
    """Both values at a point to the working precision, None where undefined."""
    is_complex = first.has(sympy.I) or second.has(sympy.I)
    values = []
    for expression in (first, second):
        try:
            values.append(evaluate(expression, point, is_complex))
        except Undefined:
            values.append(None)
    return values[0], values[1]


def _close(first: sympy.Expr, second: sympy.Expr, point: Point, rtol: Fraction) -> bool:
    """Relative closeness at a point; what looks like zero is computed again, with more digits."""
    for digits in (60, 250):
        with mpmath.workdps(digits):
            one, other = _values(first, second, point)
            size = max(abs(one), abs(other))
            if mpmath.isinf(size):
                return bool(one == other)
            if size > mpmath.mpf(10) ** (-digits // 2):
                tolerance = max(mpmath.mpf(rtol.numerator) / rtol.denominator, mpmath.mpf(10) ** (-2 * digits // 3))
                return bool(abs(one - other) <= tolerance * size)
    return True


def _one_case(first: sympy.Expr, second: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Rename symbols that differ from the other side's in case only: X against x."""
    names = {str(symbol) for symbol in first.free_symbols}
    renaming = {}
    for symbol in second.free_symbols:
        if str(symbol) not in names:
            twins = [other for other in first.free_symbols if str(other).casefold() == str(symbol).casefold()]
            if len(twins) == 1 and twins[0] not in second.free_symbols:
                renaming[symbol] = twins[0]
    return first, second.xreplace(renaming) if renaming else second


def difference(left: str, right: str) -> sympy.Expr:
    """`left - right` as one expression."""
    return sympy.Add(parse(left), sympy.Mul(-1, parse(right), evaluate=False), evaluate=False)


def constant_ratio(first: sympy.Expr, second: sympy.Expr) -> mpmath.mpf | None:
    """The constant c with first = c * second everywhere, c not 0, or None when there is none."""
    first, second = _one_case(first, second)
    if first.free_symbols != second.free_symbols:
        return None
    ratios = []
    with mpmath.workdps(60):
        for point in points(first, second):
            one, other = _values(first, second, point)
            if one is not None and other is not None and other != 0:
                ratios.append(one / other)
        if len(ratios) < (_POINTS_NEEDED if first.free_symbols else 1) or ratios[0] == 0:
            return None
        same = all(abs(ratio - ratios[0]) <= mpmath.mpf(10) ** -40 * abs(ratios[0]) for ratio in ratios)
        return ratios[0] if same else None


def magnitude(text: str) -> mpmath.mpf | None:
    """The real number a constant text stands for (infinities included), or None for one with symbols or without a
    value.
    """
    try:
        expression = parse(text)
        value = None if expression.free_symbols else evaluate(expression, {})
    except (Unreadable, TooLarge, Undefined):
        return None
    return value if isinstance(value, mpmath.mpf) and not mpmath.isnan(value) else None
