r"""Compare answers in words: names, verdicts, "no solution". `\text{an ellipse}` and `Ellipse` say the same.

Articles and case do not count. A reference in words is never matched by a number.
"""

from __future__ import annotations

import re

from sif_trainer.tasks.shapes import Group, Shape, Value, Words

_ARTICLES = re.compile(r"\b(?:the|a|an|is|are|it|they)\b\s*")
_SYNONYMS = (
    re.compile(r"(?:there (?:is|are) )?no(?: such| real)? solutions?(?: empty set)?|(?:the )?empty set|none"),
    re.compile(r"(?:limit )?does not exist|dne|undefined|not defined|diverges|divergent|no limit"),
)
_VERDICTS = {"yes": True, "true": True, "no": False, "false": False}


def same_words(gold: Shape, prediction: Shape) -> bool:
    """Whether two shapes, at least one of them words, say the same."""
    first, second = _plain(gold), _plain(prediction)
    if not first or not second:
        return False
    if any(synonym.fullmatch(first) and synonym.fullmatch(second) for synonym in _SYNONYMS):
        return True
    without = _ARTICLES.sub("", first).strip(), _ARTICLES.sub("", second).strip()
    return without[0] == without[1] or _same_verdict(first, second)


def _same_verdict(first: str, second: str) -> bool:
    """Yes or no, alone on one side at least: "no, there is none" against "no", but not "no solution" against "no"."""
    if first not in _VERDICTS and second not in _VERDICTS:
        return False
    if any(synonym.fullmatch(text) for synonym in _SYNONYMS for text in (first, second)):
        return False
    verdicts = [_VERDICTS.get(text.split()[0]) for text in (first, second)]
    return verdicts[0] is not None and verdicts[0] == verdicts[1]


def _plain(shape: Shape) -> str:
    """The words of a shape in small letters, "" for one that is no words."""
    if isinstance(shape, Words):
        return shape.text
    if isinstance(shape, Group) and shape.brackets == "{}" and not shape.parts:
        return "empty set"
    if isinstance(shape, Value) and re.fullmatch(r"[a-zA-Z .'-]+", shape.text):
        return " ".join(shape.text.casefold().split())
    return ""
