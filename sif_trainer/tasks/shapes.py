r"""Read the structure of an answer: value, words, list, tuple, set, interval, union, relation, matrix, base, ratio.

`read(r"(1,2), x=\frac12")` is a list of a tuple and a relation. Only structure is read here, from `tidy` text; what a
value means is for `values.py`, and which structures are the same answer is for `equality.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sif_trainer.tasks.brackets import closing_bracket, split_top, split_with_separators
from sif_trainer.tasks.spelling import ROW_END, tidy
from sif_trainer.tasks.units import split_unit


@dataclass(frozen=True)
class Value:
    """A number or expression, with the unit and percent sign that stood after it."""

    text: str
    unit: str = ""
    percent: bool = False


@dataclass(frozen=True)
class Words:
    """A name, a word, a phrase: compared as text."""

    text: str


@dataclass(frozen=True)
class Based:
    """Digits with an explicit base."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio:
    """Parts between colons: a ratio or a time of day."""

    parts: tuple[Shape, ...]
    unit: str = ""


@dataclass(frozen=True)
class Group:
    """Parts between commas. `brackets`: "" for a bare list, else the opening and the closing one: "()", "(]", "{}"."""

    brackets: str
    parts: tuple[Shape, ...]


@dataclass(frozen=True)
class Union:
    """Sets joined by a union sign, by "or" between relations, or less the points in `without`."""

    parts: tuple[Shape, ...]
    without: Shape | None = None


@dataclass(frozen=True)
class Reals:
    """All real numbers."""


@dataclass(frozen=True)
class Relation:
    """Sides joined by signs: `sides[0] signs[0] sides[1] ...`; signs are =, <, >, <=, >=, !=, "in" and ~ (about)."""

    sides: tuple[Shape, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of a matrix, or of a definition by cases, with the factor that stood before it."""

    rows: tuple[tuple[Shape, ...], ...]
    factor: str = ""


Shape = Value | Words | Based | Ratio | Group | Union | Reals | Relation | Matrix

_END = r"(?![a-zA-Z])"
_OR = re.compile(rf"(?:,\s*)?(?:\\text\s*\{{\s*,?\s*(?i:or)\s*\}}|\\lor{_END}|\\vee{_END}|(?<![a-zA-Z\\])or{_END})")
_AND = re.compile(
    rf"(?:,\s*)?(?:\\text\s*\{{\s*,?\s*(?i:and)\s*\}}|\\land{_END}|\\wedge{_END}|(?<![a-zA-Z\\])and{_END}|\\&)"
)
_COMMA = re.compile(r"\s*[,;]\s*")
_EQUALS = re.compile(r"=")
_COLON = re.compile(r":")
_UNION = re.compile(rf"\\cup{_END}")
_MINUS = re.compile(rf"\\(?:setminus|backslash){_END}")
_PLUS_MINUS = re.compile(rf"\\(?:pm|mp){_END}")
_SIGN = re.compile(rf"\\(?:leq|geq|neq|in|approx){_END}|[<>=]")
_SIGN_NAMES = {r"\leq": "<=", r"\geq": ">=", r"\neq": "!=", r"\in": "in", r"\approx": "~"}
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")

_BASE = re.compile(r"\(?([0-9A-Za-z]+)\)?\s*_\s*\{?\s*(?:\\text\s*\{)?\s*(\d{1,2}|[a-z]+)\s*\}*")
_BASE_WORDS = re.compile(r"([0-9A-F]+)\s*\(?(?:\\text\s*\{)?\s*\(?(?:in )?base[ -](\d{1,2})\)?\s*\}?\)?")
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_ENVIRONMENT = re.compile(
    r"\\begin\s*\{(?:[pbBvV]?(?:small)?matrix|array|cases)\}(?:\{[^{}]*\})?(.*)\\end\s*\{\w+\}", re.DOTALL
)
_BUILDER = re.compile(r"^(.*?)\s*(?:\||:|\\text\s*\{\s*such that\s*\})\s*(.*)$", re.DOTALL)  # {x | x > 2}
_OUTWARD = re.compile(  # ]0,1[
    r"(^|\\cup\s*|\\in\s*|=\s*)([\[\]])([^\[\](){},]*,[^\[\](){},]*)([\[\]])(?=\s*(?:$|\\cup))"
)
_NAMED_INTERVAL = re.compile(r"^[a-zA-Z]\s*(\[[^()\[\]]*,[^()\[\]]*[\])]|\([^()\[\]]*,[^()\[\]]*\])$")  # t(0,4]
_REALS = re.compile(r"\\mathbb\s*\{?\s*R\s*\}?|\\R|\\text\s*\{\s*R\s*\}", re.IGNORECASE)
_ALL_REALS = re.compile(r"(?:all|any|every|the)\s+reals?(?:\s+(?:numbers?|values?))?(?:\s+(?:of\s+)?\w)?")

_TEXT_OF_MATHS = re.compile(r"\\text\s*\{([^{}]*(?:[\d,]| and )[^{}]*)\}")  # \text{1, 2, and 3}
_QUALIFIER = re.compile(  # what follows the answer proper: "for all x", "where c > 0", ", k \in \mathbb{Z}"
    r"[,;]?\s*(?:\\text\s*\{\s*[,;(]?\s*(?:for|where|with|when|as)\b.*"
    r"|(?:\(|,\s*)?\b(?:for (?:all|any|every|some|each)|where|\\forall)\b.*"
    r"|[,;(]\s*[a-zA-Z](?:\s*,\s*[a-zA-Z])*\s*\\in\s*\\mathbb\s*\{?\s*[ZNQRC]\}?.*)$"
)
_LEAD = re.compile(
    r"^(?:(?:approximately|approx\.?|about|roughly|\\sim)(?![a-z])\s*"
    r"|(?:\\text\s*\{)?\s*(?:the\s+)?(?:final\s+)?(?:answer|result|value|solution)s?\s*(?:is|are|:|=)?\s*:?\s*\}?\s*)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"^[A-Z][a-z]*\s.*\b(?:is|are|equals)\s+(.+)$")  # The largest such n is 5
_LONG_WORD = re.compile(r"(?<![\\a-zA-Z])(?!and\b)[a-zA-Z]{3,}")
_PROSE = re.compile(r"[A-Za-z' .-]+")
_PERCENT = re.compile(r"\s*(?:%|(?:\\text\s*\{)?\s*(?:percent(?:age)?|pct)\s*\}?)\s*$")


def leaves(shape: Shape) -> Iterator[Value | Words]:
    """The values and words that a shape is made of."""
    if isinstance(shape, Value | Words):
        yield shape
    elif isinstance(shape, Matrix):
        yield from (value for row in shape.rows for cell in row for value in leaves(cell))
    elif isinstance(shape, Relation):
        yield from (value for side in shape.sides for value in leaves(side))
    elif isinstance(shape, Group | Ratio | Union):
        yield from (value for part in shape.parts for value in leaves(part))


@lru_cache(maxsize=8192)
def read(text: str) -> Shape:
    """The shape of an answer. Text that fits nothing else becomes a `Value`, for the parser to accept or refuse."""
    text = _OUTWARD.sub(_inward, tidy(text))
    inside = _TEXT_OF_MATHS.fullmatch(text)
    if inside:
        text = inside.group(1).strip()
    stripped = _QUALIFIER.sub("", text).strip()
    if stripped and not re.fullmatch(r"\\text\s*\{.*\}|[a-zA-Z ,.']+", text):
        text = stripped
    sentence = _SENTENCE.match(text)
    if sentence and re.search(r"[\d\\]", sentence.group(1)) and not _LONG_WORD.search(sentence.group(1)):
        text = sentence.group(1)
    led = _LEAD.sub("", text)
    return _read_list(led if led and led[0] not in "{}=" else text)


def read_as_list(text: str) -> Shape:
    """As `read`, but no comma is one of thousands: `343,512` is a list of two."""
    return Group("", tuple(_read_part(part) for part in split_top(tidy(text), _COMMA)))


def _inward(match: re.Match[str]) -> str:
    """An interval whose open ends are written as outward brackets, in the usual brackets."""
    lead, opening, inside, closing = match.groups()
    return f"{lead}{'(' if opening == ']' else '['}{inside}{')' if closing == '[' else ']'}"


def _read_list(text: str) -> Shape:
    """Alternatives joined by `or`, conditions joined by `and`, parts joined by commas."""
    if not _ENVIRONMENT.search(text):
        alternatives = split_top(text, _OR)
        if len(alternatives) > 1:
            shapes = [_read_list(part) for part in alternatives]
            return Union(tuple(shapes)) if all(map(_is_condition, shapes)) else _flat(shapes)
        conditions = split_top(text, _AND)
        if len(conditions) > 1:
            return _flat([_read_list(part) for part in conditions])
    parts = split_top(_THOUSANDS.sub(lambda match: match.group().replace(",", ""), text), _COMMA)
    if len(parts) < 2:
        return _read_part(parts[0] if parts else text)
    if all(map(_PROSE.fullmatch, parts)) and any(len(part.split()) > 2 for part in parts):
        return Words(" ".join(" ".join(parts).casefold().split()))  # a sentence with a comma
    return _flat([_read_part(part) for part in parts])


def _is_condition(shape: Shape) -> bool:
    return isinstance(shape, Union) or (isinstance(shape, Relation) and shape.signs != ("=",))


def _flat(shapes: list[Shape]) -> Group:
    """One bare list of all parts; bare lists inside are opened."""
    parts: list[Shape] = []
    for shape in shapes:
        parts.extend(shape.parts if isinstance(shape, Group) and not shape.brackets else [shape])
    return Group("", tuple(parts))


def _read_part(text: str) -> Shape:
    """One part of a list: the first reading that fits."""
    pieces = split_top(text, _UNION)
    is_union = len(pieces) > 1
    if is_union and all(map(_SIGN.search, pieces)):  # x < 1 \cup x > 2
        return Union(tuple(_read_part(piece) for piece in pieces))
    matrix = _read_matrix(text)
    if matrix is not None:
        return matrix
    sides, signs = split_with_separators(text, _SIGN)
    if signs:
        names = tuple(_SIGN_NAMES.get(sign, sign) for sign in signs)
        return Relation(tuple(_read_list(side) if side else Words("") for side in sides), names)
    if _REALS.fullmatch(text):
        return Reals()
    if is_union:
        return Union(tuple(_read_part(piece) for piece in pieces))
    pieces = split_top(text, _MINUS)
    if len(pieces) == 2:
        return Union((_read_part(pieces[0]),), without=_read_part(pieces[1]))
    return _read_group(text) or _read_based(text) or _read_words(text) or _read_ratio(text) or _read_value(text)


def _read_matrix(text: str) -> Shape | None:
    """A matrix in any brackets, with a factor or a name before it."""
    text = (split_top(text, _EQUALS) or [text])[-1]
    environment = _ENVIRONMENT.search(text)
    if environment is None or "\\begin" in environment.group(1) or text[environment.end() :].strip(" )]|}\\."):
        return None
    before = text[: environment.start()].rstrip(" ([|{").removesuffix("\\").strip()
    rows = [row for row in environment.group(1).split(ROW_END) if row.strip()]
    cells = tuple(tuple(_read_list(cell.strip()) for cell in row.split("&")) for row in rows)
    return Matrix(cells, before.removesuffix("\\cdot").removesuffix("\\times").strip())


def _read_group(text: str) -> Shape | None:
    """One pair of brackets: tuple, interval, set, vector; a lone part in round brackets is that part."""
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = text[2:-2].strip()
        builder = _BUILDER.match(inner)
        if builder and (_SIGN.search(builder.group(2)) or "\\text" in builder.group(2)):
            return _read_list(builder.group(2))
        return Group("{}", _flat([_read_list(part) for part in split_top(inner, _COMMA)]).parts)
    text = _NAMED_INTERVAL.sub(r"\1", text)
    if text[:1] not in ("(", "[", "\u27e8") or closing_bracket(text, 0) != len(text) - 1 or text[-1] == "}":
        return None
    parts = split_top(text[1:-1], _COMMA)
    if len(parts) == 1 and text[0] == "(" and text[-1] == ")":
        return _read_part(parts[0])
    return Group(text[0] + text[-1], tuple(_read_part(part) for part in parts))


def _read_based(text: str) -> Shape | None:
    match = _BASE.fullmatch(text) or _BASE_WORDS.fullmatch(text)
    if match is None or not any(character.isdigit() for character in match.group(1)):
        return None
    base = int(match.group(2)) if match.group(2).isdigit() else _BASES.get(match.group(2))
    return None if base is None else Based(match.group(1).lstrip("0").upper() or "0", base)


def _read_words(text: str) -> Shape | None:
    r"""Words: all of the text is `\text{...}` or letters, and one word is longer than a product of variables."""
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).replace("\\emptyset", " empty set ")
    if re.search(r"[\\^_=+*/{}]", plain):
        return None
    plain = " ".join(re.sub(r"[^\w\s'-]", " ", plain).casefold().split())
    if _ALL_REALS.fullmatch(plain):
        return Reals()
    longest = max(map(len, re.findall(r"[^\W\d_]+", plain)), default=0)
    if re.search(r"\d", plain) and (longest < 4 or not plain[0].isalpha() or split_unit(text)[1]):
        return None  # October 30 is words, 30 days and $30 are values
    return Words(plain) if longest > 2 or (longest == 2 and "\\text" in text) else None


def _read_ratio(text: str) -> Shape | None:
    number, unit = split_unit(text)
    parts = split_top(number, _COLON)
    return Ratio(tuple(_read_value(part) for part in parts), unit) if len(parts) > 1 else None


def _read_value(text: str) -> Shape:
    r"""A value; `a \pm b` is the list of both."""
    if _PLUS_MINUS.search(text):
        plus = text.replace("\\pm", "+").replace("\\mp", "-")
        minus = text.replace("\\pm", "-").replace("\\mp", "+")
        return Group("", tuple(_read_value(re.sub(r"^\s*\+\s*", "", value)) for value in (plus, minus)))
    number = _PERCENT.sub("", text)
    if number and number != text:
        return Value(number, percent=True)
    number, unit = split_unit(text)
    inside = re.fullmatch(r"\\text\s*\{([^{}]*)\}", number)
    return Value(inside.group(1).strip() if inside else number, unit)
