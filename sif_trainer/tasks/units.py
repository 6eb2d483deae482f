r"""Units after a value: find them, drop them, tell two different ones apart.

`split_unit(r"85\frac{5}{7}\text{ km/h}")` is `(r"85\frac{5}{7}", "km/h")`. A dropped unit is right, a different one is
not; a word that is no known unit ("apples") says nothing, so it is dropped on either side. Units are never converted.
"""

from __future__ import annotations

import re

_ALIASES = """
m meter metre; cm centimeter centimetre; mm millimeter millimetre; km kilometer kilometre; nm nanometer nanometre
in inch inche; ft foot feet; yd yard; mi mile; acre; ha hectare; l liter litre; ml milliliter millilitre; gal gallon
g gram gm; kg kilogram; mg milligram; lb lbs pound; oz ounce; mol mole; s sec second; min minute; h hr hour; day; week
month; year yr; am; pm; mph; kmh kph; dollar usd buck; cent \u00a2; euro; rupee rs; \u00b0 deg degree; rad radian
\u00b0c celsius; \u00b0f fahrenheit; k kelvin; j joule; kj kilojoule; ev; mev; n newton; w watt; kw kilowatt; v volt
ampere amp; hz hertz; pa pascal; kpa kilopascal; atm atmosphere; unit
"""
_CANONICAL = {alias: names.split()[0] for names in re.split(r"[;\n]", _ALIASES) for alias in names.split()}

_TEXT = r"\\text\s*\{[^{}]*\}(?:\s*\^\s*(?:\{\s*[-+]?\d\s*\}|-?\d))?"
_TEXTS = re.compile(rf"(?:\s*(?:\\cdot|/|\^\{{\\circ\}}|\*)?\s*{_TEXT})+\s*$")
_WORD = r"(?:sq(?:uare|\.)?\s+|cubic\s+|cu\.\s+)?[a-zA-Z]{2,}\.?(?:\^\{?[-+]?\d\}?|[23])?"
_WORDS = re.compile(
    rf"(?<=[\d}})\s])\s*({_WORD}(?:(?:\s*[/·*]\s*|\s+|\s*\\cdot\s*|-)[a-zA-Z]+\.?(?:\^\{{?[-+]?\d\}}?)?)*)\s*$"
)
_LETTER = re.compile(r"(?<=[\d}])(?:\s+([msghLJNKVW])(?:\^\{?\d\}?)?|\s*(¢))$")
_DEGREE = re.compile(r"\s*\^\{\\circ\}\s*(?:\\text\s*\{\s*([CFK])\s*\}|([CFK]))?\s*$")
_ANGLE = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")  # the degree sign belongs to the argument
_LEADING = re.compile(r"^(?:\\text\s*\{\s*(dollars|Rs\.?|USD)\s*\}|([€£¥₹])|(Rs\.?|USD)\s)\s*(?=[-\d.\\])")
_FUNCTIONS = {"sin", "cos", "tan", "log", "exp", "mod", "and", "or", "max"}


def split_unit(text: str) -> tuple[str, str]:
    """`text` without its unit, and the unit in our spelling ("" when there is none or when it is no known unit)."""
    leading = _LEADING.match(text)
    if leading:
        currency = next(filter(None, leading.groups()))
        rest, _ = split_unit(text[leading.end() :])
        return rest, {"€": "euro", "£": "pound sterling", "¥": "yen"}.get(currency, unit_name(currency))
    degree = _DEGREE.search(text)
    if degree and degree.start() > 0 and not _ANGLE.search(text):
        scale = degree.group(1) or degree.group(2)
        return text[: degree.start()].strip(), f"°{scale.casefold()}" if scale else "°"
    for pattern in (_TEXTS, _WORDS, _LETTER):
        match = pattern.search(text)
        if match and _is_value(text[: match.start()]) and _may_be_unit(match, pattern is _WORDS):
            return text[: match.start()].strip(), unit_name(match.group())
    return text, ""


def _is_value(text: str) -> bool:
    """Whether something that could carry a unit stands before it: it holds a digit or a letter and ends with neither
    sign.
    """
    text = text.strip()
    return bool(re.search(r"\d|\\[a-zA-Z]+|[a-zA-Z]", text)) and text[-1] not in "+-*/=,:^_<>"


def _may_be_unit(match: re.Match[str], plain: bool) -> bool:
    """Plain words count when they are known units, or long enough not to be a product of variables."""
    if not plain:
        return True
    words = re.findall(r"[a-zA-Z]+", match.group(1))
    if any(word.casefold() in _FUNCTIONS for word in words):
        return False
    return all(len(word) > 3 or unit_name(word) or len(words) > 1 for word in words[:1])


def unit_name(text: str) -> str:
    """Our spelling of a unit ("km/h" for "kilometers per hour"), or "" when some part is not a known unit."""
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).replace("^{\\circ}", "°").replace("\\cdot", " ")
    text = re.sub(r"[{}$]", "", text).replace("°", " ° ").casefold().strip()
    text = re.sub(r"(?<=[a-z])([23])\b", r"^\1", text)
    text = re.sub(r"\bper\b", "/", text).replace("miles / hour", "mph")
    text = re.sub(r"\b(?:square|sq\.?)\s+(\w+)", r"\1^2", text)
    text = re.sub(r"\b(?:cubic|cu\.?)\s+(\w+)", r"\1^3", text)
    parts = re.findall(r"[a-z.°¢]+|\^\s*-?\d|/", text)
    names = []
    for part in parts:
        if part[0] in "^/":
            names.append(part.replace(" ", ""))
            continue
        word = part.strip(".")
        name = (
            _CANONICAL.get(word) or _CANONICAL.get(word.removesuffix("s")) or _CANONICAL.get(word.removesuffix("es"))
        )
        if name is None:
            return ""
        names.append(name)
    joined = " ".join(names).replace(" ^", "^").replace(" / ", "/").replace("° c", "°c").replace("° f", "°f")
    joined = re.sub(r" (\S+)\^-(\d)", r"/\1^\2", joined).replace("^1", "")  # m s^-1 is m/s
    return {"kmh": "km/h", "mi/h": "mph"}.get(joined, "" if joined == "unit" else joined)


def different(first: str, second: str) -> bool:
    """Whether two units (in our spelling) are both known and not the same."""
    return bool(first) and bool(second) and first != second
