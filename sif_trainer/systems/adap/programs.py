"""The program in a reply, and whether what it printed or returned is what was expected.

    extract_code("Here:\\n```python\\nprint(1)\\n```")        # "print(1)\\n"
    same_words(b"0.5  YES\\n", "0.50 YES", tolerance=1e-6)   # True

The published experiments compare output as text, so that 0.30000000000000004 is not 0.3. What programs put out is
compared as data, and never evaluated.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*$", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LONGEST_NUMBER = 60  # characters


def extract_code(text: str) -> str:
    """The program in a reply: its last fenced block, the part before the fence that closes an open prompt, or all."""
    fences = list(_FENCE.finditer(text))
    if len(fences) % 2 and not fences[0].group(1):
        return text[: fences[0].start()]
    if not fences:
        return text
    opening = fences[-2 + len(fences) % 2]
    closing = fences[-1].start() if len(fences) % 2 == 0 else len(text)
    return text[opening.end() : closing].lstrip("\n")


def same_words(output: bytes, expected: str, tolerance: float) -> bool:
    """Whether the output has the expected words, whatever the space between; fractions within `tolerance`."""
    got, wanted = output.decode("utf-8", "replace").split(), expected.split()
    return len(got) == len(wanted) and all(
        one == other or _close_words(one, other, tolerance) for one, other in zip(got, wanted, strict=True)
    )


def same_value(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether two JSON values are equal, as Python compares; a float is met within `tolerance`, NaN by NaN."""
    if isinstance(expected, list) and isinstance(got, list):
        return len(got) == len(expected) and all(map(same_value, got, expected, [tolerance] * len(got)))
    if isinstance(expected, dict) and isinstance(got, dict):
        return got.keys() == expected.keys() and all(same_value(got[key], expected[key], tolerance) for key in got)
    if isinstance(expected, float) and isinstance(got, int | float):
        return got == expected or _close(got, expected, tolerance)
    return bool(got == expected)


def same_json(output: bytes, expected: str, tolerance: float) -> bool:
    """Whether the output is JSON text of the expected value; see `same_value`."""
    try:
        return same_value(json.loads(output), json.loads(expected), tolerance)
    except (ValueError, RecursionError):  # the output's: the expected text has been read before
        return False


def _close_words(got: str, expected: str, tolerance: float) -> bool:
    words = (got, expected)
    if any(len(word) > _LONGEST_NUMBER or not _NUMBER.fullmatch(word) for word in words):
        return False
    return not expected.lstrip("+-").isdigit() and _close(float(got), float(expected), tolerance)


def _close(got: float, expected: float, tolerance: float) -> bool:
    try:
        # A test that expects NaN says so: it is met by NaN, though Python calls them unequal.
        return (math.isnan(got) and math.isnan(expected)) or math.isclose(
            got, expected, rel_tol=tolerance, abs_tol=tolerance
        )
    except OverflowError:  # an integer beyond all floats
        return False
