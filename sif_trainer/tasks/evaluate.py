"""Evaluate a parsed expression without letting it grow: exactly as a rational, or to many digits at a point.

sympy's own evaluation would compute any tower of exponents it is given. Here each power, factorial and sum is measured
first and `TooLarge` is raised before the work. Real arithmetic is meant: an even root of a negative number is
`Undefined` and an odd one is real, unless the expression holds the imaginary unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import comb, factorial, gcd

import mpmath
import sympy

MAX_BITS = 200_000  # of an exact integer
MAX_TERMS = 5_000  # of a sum or product
_MAX_LOG2 = 2.0**40  # of the magnitude of a number of limited digits
_MAX_ANGLE = mpmath.mpf(10) ** 40

Point = Mapping[sympy.Symbol, mpmath.mpf]


class TooLarge(Exception):
    """A number that would take too long, or too much memory, to compute."""


class Undefined(Exception):
    """No real (or no finite) value at this point."""


def exact(node: sympy.Basic) -> Fraction | None:
    """The rational value of a constant expression, or None when it has none that is found by exact arithmetic."""
    if isinstance(node, sympy.Rational):
        return Fraction(int(node.p), int(node.q))
    if isinstance(node, sympy.Float):
        return Fraction(str(node))
    rule = _EXACT.get(type(node))
    if rule is None:
        return None
    values = [exact(argument) for argument in node.args]
    return None if any(value is None for value in values) else rule(*values)


def _exact_sum(*terms: Fraction) -> Fraction:
    return _bounded(sum(terms, Fraction(0)))


def _exact_product(*factors: Fraction) -> Fraction:
    product = Fraction(1)
    for factor in factors:
        product = _bounded(product * factor)
    return product


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if base in (0, 1) and exponent > 0:
        return base
    if base == 0:
        raise Undefined
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if exponent.denominator == 1:
        if size * abs(exponent.numerator) > MAX_BITS and abs(base) != 1:
            raise TooLarge
        return base**exponent.numerator if abs(base) != 1 else base ** (exponent.numerator % 2)
    if base < 0 and exponent.denominator % 2 == 0:
        return None
    roots = [_root(abs(part), exponent.denominator) for part in (base.numerator, base.denominator)]
    if roots[0] is None or roots[1] is None:
        return None
    return _exact_power(Fraction(roots[0], roots[1]) * (-1 if base < 0 else 1), Fraction(exponent.numerator))


def _root(value: int, degree: int) -> int | None:
    """The exact integer root, or None."""
    if degree > MAX_BITS:
        return None
    root, is_exact = sympy.integer_nthroot(value, degree)
    return int(root) if is_exact else None


def _exact_factorial(n: Fraction) -> Fraction | None:
    if n.denominator != 1 or n < 0:
        return None
    if n > 10_000:
        raise TooLarge
    return Fraction(factorial(n.numerator))


def _exact_binomial(n: Fraction, k: Fraction) -> Fraction | None:
    if n.denominator != 1 or k.denominator != 1 or k < 0 or n < 0:
        return None
    if min(k, abs(n - k)) * n.numerator.bit_length() > MAX_BITS:
        raise TooLarge
    return Fraction(comb(n.numerator, k.numerator))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooLarge
    return value


def _exact_mod(a: Fraction, b: Fraction) -> Fraction | None:
    return a % b if b else None


_EXACT: dict[type, Callable[..., Fraction | None]] = {
    sympy.Add: _exact_sum,
    sympy.Mul: _exact_product,
    sympy.Pow: _exact_power,
    sympy.factorial: _exact_factorial,
    sympy.binomial: _exact_binomial,
    sympy.Abs: abs,
    sympy.floor: lambda x: Fraction(x.__floor__()),
    sympy.ceiling: lambda x: Fraction(x.__ceil__()),
    sympy.Max: max,
    sympy.Min: min,
    sympy.Mod: _exact_mod,
    sympy.gcd: lambda a, b: Fraction(gcd(int(a), int(b))),
    sympy.UnevaluatedExpr: lambda x: x,
}


def evaluate(node: sympy.Basic, point: Point, is_complex: bool = False) -> mpmath.mpf:
    """The value at `point` to mpmath's working precision. Raises `Undefined` and `TooLarge`."""
    if isinstance(node, sympy.Rational):
        return mpmath.mpf(int(node.p)) / int(node.q)
    if isinstance(node, sympy.Float):
        return mpmath.mpf(str(node))
    if isinstance(node, sympy.Symbol):
        return point[node]
    if isinstance(node, sympy.Sum | sympy.Product):
        return _series(node, point, is_complex)
    constant = _CONSTANTS.get(node)
    if constant is not None:
        return constant()
    rule = _NUMERIC.get(type(node))
    if rule is None:
        raise Undefined(f"no value for {type(node).__name__}")
    arguments = [evaluate(argument, point, is_complex) for argument in node.args]
    if rule is _power:
        exponent = node.args[1]
        odd_root = isinstance(exponent, sympy.Rational) and exponent.q % 2 == 1
        return _power(arguments[0], arguments[1], int(exponent.p) if odd_root else None, is_complex)
    if not is_complex and type(node) in _DOMAINS and not _DOMAINS[type(node)](arguments[0]):
        raise Undefined
    try:
        return rule(*arguments)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        raise Undefined from error


def _series(node: sympy.Sum | sympy.Product, point: Point, is_complex: bool) -> mpmath.mpf:
    """A finite sum or product, term by term."""
    if len(node.limits) != 1 or len(node.limits[0]) != 3:
        raise Undefined
    index, lower, upper = node.limits[0]
    first, last = (evaluate(limit, point, is_complex) for limit in (lower, upper))
    if not (mpmath.isfinite(first) and mpmath.isfinite(last)) or last - first > MAX_TERMS:
        raise TooLarge
    total = mpmath.mpf(0 if isinstance(node, sympy.Sum) else 1)
    for step in range(int(mpmath.nint(first)), int(mpmath.floor(last + mpmath.mpf(10) ** -20)) + 1):
        term = evaluate(node.function, {**point, index: mpmath.mpf(step)}, is_complex)
        total = total + term if isinstance(node, sympy.Sum) else total * term
    return total


def _power(base: mpmath.mpf, exponent: mpmath.mpf, odd_numerator: int | None, is_complex: bool) -> mpmath.mpf:
    if base == 0:
        if mpmath.re(exponent) > 0:
            return mpmath.mpf(0)
        if exponent == 0:
            return mpmath.mpf(1)
        raise Undefined
    if abs(exponent) * abs(mpmath.log(abs(base), 2)) > _MAX_LOG2:
        raise TooLarge
    if isinstance(base, mpmath.mpf) and base < 0 and isinstance(exponent, mpmath.mpf):
        if mpmath.isint(exponent):
            return mpmath.power(base, int(exponent))
        if odd_numerator is not None:
            return mpmath.power(-base, exponent) * (-1 if odd_numerator % 2 else 1)
        if not is_complex:
            raise Undefined
    return mpmath.power(base, exponent)


def _exp(x: mpmath.mpf) -> mpmath.mpf:
    if abs(x) > _MAX_LOG2:
        raise TooLarge
    return mpmath.exp(x)


def _factorial(x: mpmath.mpf) -> mpmath.mpf:
    if abs(x) > 1e9:
        raise TooLarge
    return mpmath.factorial(x)


def _log(x: mpmath.mpf, base: mpmath.mpf | None = None) -> mpmath.mpf:
    if x == 0:
        raise Undefined
    return mpmath.log(x) if base is None else mpmath.log(x) / mpmath.log(base)


def _angle(function: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[mpmath.mpf], mpmath.mpf]:
    def bounded(x: mpmath.mpf) -> mpmath.mpf:
        if abs(x) > _MAX_ANGLE:
            raise TooLarge
        return function(x)

    return bounded


def _floor(x: mpmath.mpf) -> mpmath.mpf:
    nearest = mpmath.nint(x)
    return nearest if abs(x - nearest) < mpmath.mpf(10) ** -30 else mpmath.floor(x)


def _product(*factors: mpmath.mpf) -> mpmath.mpf:
    product = mpmath.mpf(1)
    for factor in factors:
        product *= factor
    return product


_CONSTANTS: dict[sympy.Basic, Callable[[], mpmath.mpf]] = {
    sympy.pi: lambda: +mpmath.pi,
    sympy.E: lambda: +mpmath.e,
    sympy.I: lambda: mpmath.mpc(0, 1),
    sympy.GoldenRatio: lambda: +mpmath.phi,
    sympy.oo: lambda: mpmath.inf,
    sympy.S.NegativeInfinity: lambda: -mpmath.inf,
}
_NUMERIC: dict[type, Callable[..., mpmath.mpf]] = {
    sympy.Add: lambda *terms: mpmath.fsum(terms),
    sympy.Mul: _product,
    sympy.Pow: _power,
    sympy.exp: _exp,
    sympy.log: _log,
    sympy.factorial: _factorial,
    sympy.binomial: mpmath.binomial,
    sympy.Abs: lambda x: mpmath.mpf(abs(x)),
    sympy.floor: _floor,
    sympy.ceiling: lambda x: -_floor(-x),
    sympy.Max: max,
    sympy.Min: min,
    sympy.Mod: lambda a, b: a - b * _floor(a / b),
    sympy.sign: mpmath.sign,
    sympy.re: mpmath.re,
    sympy.im: mpmath.im,
    sympy.conjugate: mpmath.conj,
    sympy.UnevaluatedExpr: lambda x: x,
    **{
        getattr(sympy, name): _angle(getattr(mpmath, name))
        for name in [
            "sin",
            "cos",
            "tan",
            "cot",
            "sec",
            "csc",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "coth",
            "asinh",
            "acosh",
            "atanh",
        ]
    },
}
_DOMAINS: dict[type, Callable[[mpmath.mpf], bool]] = {
    sympy.log: lambda x: x > 0,
    sympy.asin: lambda x: abs(x) <= 1,
    sympy.acos: lambda x: abs(x) <= 1,
    sympy.acosh: lambda x: x >= 1,
    sympy.atanh: lambda x: abs(x) < 1,
}

_SPREAD = ("0.3719", "0.8231", "1.6173", "2.9041", "-0.4127", "-1.7329", "0.1337", "-2.2717")
_WHOLE = (5, 8, 3, 12, 7, 2, 9, 4)


def points(first: sympy.Expr, second: sympy.Expr) -> Iterator[Point]:
    """Points at which to compare two expressions: one empty point for constants, else eight with values of both signs.

    A symbol that stands in a factorial, a binomial, a sum's limit, a rounding or over a negative base gets small whole
    numbers.
    """
    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    if not symbols:
        yield {}
        return
    whole = _whole_symbols(first) | _whole_symbols(second)
    for trial in range(len(_SPREAD)):
        yield {
            symbol: mpmath.mpf(_WHOLE[(trial + 3 * place) % 8])
            if symbol in whole
            else mpmath.mpf(_SPREAD[(trial + 3 * place) % 8]) * (1 + mpmath.mpf(place + 1) / 97)
            + mpmath.mpf(place) / 31
            for place, symbol in enumerate(symbols)
        }


def _whole_symbols(expression: sympy.Expr) -> set[sympy.Symbol]:
    found: set[sympy.Symbol] = set()
    for node in sympy.preorder_traversal(expression):
        if isinstance(node, sympy.factorial | sympy.binomial | sympy.floor | sympy.ceiling | sympy.Mod):
            found |= node.free_symbols
        elif isinstance(node, sympy.Sum | sympy.Product):
            for limit in node.limits:
                for bound in limit[1:]:
                    found |= bound.free_symbols
        elif isinstance(node, sympy.Pow) and exact(node.base) is not None and (exact(node.base) or 0) < 0:
            found |= node.exp.free_symbols
    return found
