r"""Find the answer inside a reply: the last box, an announced answer, the last number, letters of options.

Text in, text out; nothing here knows a reference answer, so label-free votes may use it as well:
`final_answer("... so \\boxed{4}")` is `"4"`. Every function is linear in the text and looks only at its last
`WINDOW` characters, so a reply of any size costs the same.

The benchmarks' own scripts differ in details (a box only, `####` only, a random option when nothing is found);
here a missing answer is `None`, never a guess.
"""

from __future__ import annotations

import re

WINDOW = 50_000  # characters at the end of a reply that are searched
_MAX_BOX = 10_000  # longest box content
_MAX_BOXES = 32  # boxes looked at, from the end

_BOX = re.compile(r"\\(?:boxed|fbox)\s*")
_HASHES = re.compile(r"####[ \t]*([^\n]{1,300})")
_ANNOUNCED = re.compile(
    r"(?:answer|result|(?:correct|right)\s+(?:options?|choices?|letters?))(?:\s+to\s+[^.\n:]{1,80}?)?\**\s*(?:\bis\b|\bare\b|:|=)\s*:?\s*\**\s*",
    re.IGNORECASE,
)
_MATH = re.compile(r"\$\$(.{1,2000}?)\$\$|\$([^$\n]{1,2000})\$|\\\((.{1,2000}?)\\\)|\\\[(.{1,2000}?)\\\]", re.DOTALL)
_BOLD = re.compile(r"\*\*([^*\n]{1,300})\*\*")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
NUMBER = re.compile(
    r"(?<![\d.])(?:(?<![\w)\]}])[-+\u2212])?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
)


def boxes(text: str) -> list[str]:
    r"""Contents of the last `\boxed{}` or `\fbox{}` commands in reading order, without empty and brace-less ones."""
    text = text[-WINDOW:]
    starts = [match.end() for match in _BOX.finditer(text)][-_MAX_BOXES:]
    found = [_braced(text, start) for start in starts]
    return [content for content in found if content]


def last_box(text: str) -> str | None:
    """Content of the last non-empty box, or None."""
    found = boxes(text)
    return found[-1] if found else None


def final_answer(text: str) -> str | None:
    """The answer of a whole reply: its last box, else an announced answer, else mathematics that ends the reply."""
    text = text[-WINDOW:].strip()
    box = last_box(text)
    if box is not None:
        return box
    hashes = _HASHES.findall(text)
    if hashes:
        return str(hashes[-1]).strip()
    return _announced(text) or _closing_math(text)


def last_number(text: str) -> str | None:
    """The last number of a text, thousands commas kept, or None."""
    matches = NUMBER.findall(text[-WINDOW:])
    return str(matches[-1]).replace("$", "").strip() if matches else None


def _braced(text: str, start: int) -> str | None:
    """Content of the brace group that opens at `start`; a group left open ends at its line or `$`."""
    if start >= len(text) or text[start] != "{":
        bare = re.match(r"(-?\d[\d,.]*\d|-?\d)", text[start : start + 300])
        return bare.group(1) if bare else None
    depth = 0
    stop = min(len(text), start + _MAX_BOX)
    for position in range(start, stop):
        if text[position] == "{" and text[position - 1] != "\\":
            depth += 1
        elif text[position] == "}" and text[position - 1] != "\\":
            depth -= 1
            if depth == 0:
                return text[start + 1 : position].strip()
    return re.split(r"\$|\n|\\\)|\\\]", text[start + 1 : stop], maxsplit=1)[0].strip()


def _announced(text: str) -> str | None:
    """What follows the last 'final answer:' or 'the answer is'."""
    matches = list(_ANNOUNCED.finditer(text))
    if not matches:
        return None
    rest = text[matches[-1].end() :][:2000].lstrip()
    math = _MATH.match(rest)
    if math:
        return next(group for group in math.groups() if group is not None).strip()
    bold = re.match(r"([^*\n]{1,300})\*\*", rest)
    end = _SENTENCE_END.search(rest)
    answer = (bold.group(1) if bold else rest[: end.start()] if end else rest).strip().strip("*").strip()
    return answer.rstrip(".").strip() or None


def _closing_math(text: str) -> str | None:
    """Mathematics or bold text that the reply ends with."""
    tail = text[-2500:]
    for pattern in (_MATH, _BOLD):
        matches = list(pattern.finditer(tail))
        if matches and not tail[matches[-1].end() :].strip(" .\n"):
            return next(group for group in matches[-1].groups() if group is not None).strip()
    return None
