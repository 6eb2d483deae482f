"""Brackets of every kind: where one closes, and splitting a text outside all of them.

`split_top("(1,2), [3,4)", re.compile(","))` is `["(1,2)", "[3,4)"]`. The kinds are not told apart, as in intervals.
"""

from __future__ import annotations

import re

_OPEN, _CLOSE = "({[\u27e8", ")}]\u27e9"


def closing_bracket(text: str, start: int) -> int:
    """Index of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] in _OPEN:
            depth += 1
        elif text[index] in _CLOSE:
            depth -= 1
            if depth == 0:
                return index
    return -1


def split_top(text: str, separator: re.Pattern[str]) -> list[str]:
    """Pieces between the separators that stand outside all brackets and environments; blank pieces are left out."""
    return [piece for piece in split_with_separators(text, separator)[0] if piece]


def split_with_separators(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """All pieces, blank ones too, and the separators between them."""
    pieces: list[str] = []
    separators: list[str] = []
    depth = start = index = 0
    while index < len(text):
        match = separator.match(text, index) if depth == 0 else None
        if match and match.end() > index:
            pieces.append(text[start:index].strip())
            separators.append(match.group())
            start = index = match.end()
            continue
        depth += (text[index] in _OPEN) - (text[index] in _CLOSE)
        depth += text.startswith("\\begin{", index) - text.startswith("\\end{", index)
        depth = max(depth, 0)
        index += 1
    return [*pieces, text[start:].strip()], separators
