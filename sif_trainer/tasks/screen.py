r"""Cheap checks that keep hostile answers away from the parser: size, nesting, towers of exponents, huge factorials.

`explosive("10^{10^{10^{10}}}")` is a phrase; `explosive("2^{100}+1")` is None. Linear in the text, no mathematics.
What passes here is still compared in a worker under a time and a memory limit.
"""

from __future__ import annotations

import re

MAX_LENGTH = 1000  # characters of an answer that is read as mathematics
MAX_DIGITS = 1000  # digits in a row
MAX_NESTING = 24  # open brackets at a time

_DIGITS = re.compile(rf"\d[\d,\s]{{{MAX_DIGITS},}}")
_POWER = r"(?:\^|\*\*)\s*"
_TOWER = re.compile(  # three exponents on one another, in brackets or as bare numbers; not x^2 y^2 z^2
    rf"(?:{_POWER}[{{(]\s*[^{{}}()^*]{{0,12}}){{2}}{_POWER}|(?:{_POWER}[{{(]*\s*\d+\s*){{2}}{_POWER}"
)
_BIG_EXPONENT = re.compile(_POWER + r"[{(\s]*-?\d{7,}")
_BIG_FACTORIAL = re.compile(r"(?<!\d)\d{5,}\s*[})]*\s*!|!\s*[})]*\s*!")
_BIG_BINOMIAL = re.compile(r"\\[dt]?binom\s*(?:\{[^{}]*\}\s*)?\{[^{}]*(?:!|\d{5})")
_CONTROL = re.compile("[\x00-\x07\x0b\x0e-\x1f\x7f\ud800-\udfff\ue000]")


def unsafe_text(text: str) -> str | None:
    """Why `text` is not even to be tidied (its size or shape), or None."""
    if len(text) > MAX_LENGTH:
        return f"longer than {MAX_LENGTH} characters"
    if _CONTROL.search(text):
        return "no text: it holds control characters"
    if _nesting(text) > MAX_NESTING:
        return f"nested more than {MAX_NESTING} deep"
    return None


def explosive(text: str) -> str | None:
    """Why `text` must not be evaluated (what it would grow to), or None."""
    if _DIGITS.search(text):
        return f"a number of more than {MAX_DIGITS} digits"
    if _TOWER.search(text) or _BIG_EXPONENT.search(text):
        return "an exponent too large to evaluate"
    if _BIG_FACTORIAL.search(text):
        return "a factorial too large to evaluate"
    if _BIG_BINOMIAL.search(text):
        return "a binomial too large to evaluate"
    return None


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "{([":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "})]":
            depth -= 1
    return deepest
