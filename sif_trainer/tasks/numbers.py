r"""Read plain numbers exactly: decimals, fractions, mixed numbers, powers of ten, thousands. No parser, no floats.

`number(r"1\frac{12}{13}")` is `Fraction(25, 13)`; `number("1.5e3")` is 1500; a text that is no plain number gives
None.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_MAX_EXPONENT = 5000
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)")
_PLAIN = re.compile(rf"({_DECIMAL})")
_SCIENTIFIC = re.compile(
    rf"({_DECIMAL})?\s*(?:[eE]\s*([-+]?\d+)|(?:\\times|\\cdot|\*|x)?\s*10\s*\^\s*\{{?\s*([-+]?\d+)\s*\}}?)"
)
_FRACTION = re.compile(
    rf"\\frac\s*\{{\s*([-+]?{_DECIMAL})\s*\}}\s*\{{\s*([-+]?{_DECIMAL})\s*\}}|({_DECIMAL})\s*/\s*([-+]?{_DECIMAL})"
)
_REPEATING = re.compile(
    r"(\d*)\.(?:(\d*)\\(?:overline|bar|dot)\s*\{?(\d+)\}?|(\d*?)(\d)\5+\s*\\ldots)"
)  # 0.1\overline{6}, 0.333...
_MIXED = re.compile(r"(\d+)\s*\\frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|(\d+)\s+(\d+)\s*/\s*(\d+)")


@lru_cache(maxsize=8192)
def number(text: str) -> Fraction | None:
    """The exact value of a plain number, or None."""
    text = text.strip()
    sign = 1
    while text[:1] in ("-", "+"):
        sign = -sign if text[0] == "-" else sign
        text = text[1:].strip()
    while text[:1] == "(" and text[-1:] == ")" and "(" not in text[1:]:
        text = text[1:-1].strip()
        if text[:1] in ("-", "+"):
            inner = number(text)
            return None if inner is None else sign * inner
    value = _unsigned(_THOUSANDS.sub(lambda match: match.group().replace(",", ""), text))
    return None if value is None else sign * value


def _unsigned(text: str) -> Fraction | None:
    if len(text) > 1200:
        return None
    if match := _REPEATING.fullmatch(text):
        fixed, period = match.group(2) or match.group(4) or "", match.group(3) or match.group(5)
        tail = Fraction(int(period), 10 ** len(fixed) * (10 ** len(period) - 1))
        return _decimal(f"{match.group(1) or 0}.{fixed or 0}") + tail
    if match := _PLAIN.fullmatch(re.sub(r"(\.\d+)\s*\\ldots$", r"\1", text)):
        return _decimal(match.group(1))
    if match := _FRACTION.fullmatch(text):
        above, below = (match.group(1), match.group(2)) if match.group(1) else (match.group(3), match.group(4))
        return _decimal(above) / _decimal(below) if _decimal(below) else None
    if match := _MIXED.fullmatch(text):
        whole, above, below = match.groups()[:3] if match.group(1) else match.groups()[3:]
        return int(whole) + Fraction(int(above), int(below)) if int(below) else None
    if match := _SCIENTIFIC.fullmatch(text):
        exponent = int(match.group(2) or match.group(3))
        if abs(exponent) <= _MAX_EXPONENT and (match.group(1) or match.group(3)):
            return _decimal(match.group(1) or "1") * Fraction(10) ** exponent
    return None


def _decimal(text: str) -> Fraction:
    return Fraction(f"0{text}" if text.startswith(".") else text.rstrip("."))


def has_decimal(text: str) -> bool:
    """Whether the text writes a number with a decimal point or in e-notation, so that it may be a rounding."""
    if _REPEATING.fullmatch(text):
        return False
    return bool(re.search(r"\.\d|\d\.|\d[eE][-+]?\d", text))
