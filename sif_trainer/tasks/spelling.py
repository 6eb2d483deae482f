r"""One spelling for the many ways to write the same LaTeX or plain text. Strings only, no mathematics.

`tidy(r"$\left(3,\dfrac12\right)$")` is `r"(3,\frac{1}{2})"`; `canonical` also drops blanks, case and text commands, so
that texts with equal canonical form are equal answers. Units, lists and thousands are read in `shapes.py`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from sif_trainer.tasks.brackets import closing_bracket

_SIGNS = {
    "\u2212\u2013\u2014\u2010\u2011": "-",
    "\u2215\u2044\u00f7": "/",
    "\u00d7": r"\times ",
    "\u00b7\u22c5\u2219": r"\cdot ",
    "√": r"\sqrt ",
    "∞": r"\infty ",
    "≤⩽": r"\leq ",
    "≥⩾": r"\geq ",
    "≠": r"\neq ",
    "≈": r"\approx ",
    "±": r"\pm ",
    "∓": r"\mp ",
    "\u222a": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "∅": r"\emptyset ",
    "\u2216": r"\setminus ",
    "°º": r"^{\circ}",
    "\u211d": r"\mathbb{R}",
    "\u2124": r"\mathbb{Z}",
    "\u2115": r"\mathbb{N}",
    "\u211a": r"\mathbb{Q}",
    "…⋯": r"\ldots ",
    "→": r"\to ",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "\u2223": "|",
    "\u2032\u2018\u2019": "'",
    "\u201c\u201d": '"',
    "\u2211": r"\sum ",
    "∫": r"\int ",
    "∠": r"\angle ",
    "△": r"\triangle ",
    "¼": r"\frac{1}{4}",
    "½": r"\frac{1}{2}",
    "¾": r"\frac{3}{4}",
    "⅓": r"\frac{1}{3}",
    "⅔": r"\frac{2}{3}",
    "\u00a0\u2009\u202f": " ",
    "\u200b\ufeff": "",
}
_GREEK = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "theta",
    "lambda",
    "mu",
    "pi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "omega",
)
_CHARACTERS = {ord(character): text for characters, text in _SIGNS.items() for character in characters}
_CHARACTERS |= {
    ord(unicodedata.lookup(f"GREEK SMALL LETTER {name.replace('lambda', 'lamda').upper()}")): f"\\{name} "
    for name in _GREEK
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")

ROW_END = "\ue000"  # stands for the double backslash that ends a matrix row
_ESCAPES = {"\f": "f", "\b": "b", "\t": "t", "\r": "r"}  # "\frac" that was read as a form feed and "rac"
_LOST_BACKSLASH = re.compile("([\f\b\t\r])(?=(?:rac|oxed|inom|egin|ext|imes|heta|an|frac|ight|ho)(?![a-z]))")

_END = r"(?![a-zA-Z])"  # end of a command's name
_BARE = r"(?<![\\a-zA-Z])"  # start of a word that is no command
_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|coth|sin|cos|tan|cot|sec|csc|ln|log|lg|exp|sqrt"
_POWERS = {"thousand": "10^{3}", "million": "10^{6}", "billion": "10^{9}"}

_BLANKS = (
    (rf"\\(?:left|right|middle|[bB]igg?[lrm]?){_END}\s*\.?", ""),
    (rf"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|nonumber|hfill|noindent|underline){_END}", ""),
    (r"\\(?:text)?color\s*\{\w+\}|\\phantom\s*(?:\{[^{}]*\})?", ""),
    (r"(?<=\d)(?:\{,\}|,\\!|\\!,|\\,|\{,\\!\}|,\\,)\s*(?=\d{3}(?!\d))", ""),  # can only be a separator of thousands
    (r"\{,\}", ","),
    (r"\\!", ""),
    (rf"\\[,;:]|\\ |~|\\q?quad{_END}|\\(?:thin|med|thick|en)space{_END}|\\hspace\*?\{{[^{{}}]*\}}", " "),
    (r"\\\$", r"\\text{dollars}"),
    (r"\$|\\\(|\\\)|\\\[|\\\]", ""),
)
_TEXTS = (
    (r"\\(?:mathrm|text|mathit|mathbf|operatorname)\s*\{\s*([eid])\s*\}", r" \1 "),
    (r"\\(?:mathbf|boldsymbol|bm|mathit|mathcal)\s*\{\s*(\w)\s*\}", r"\1"),
    (r"\\(?:text(?:bf|rm|it|sf|tt|normal)|math(?:rm|it|bf|sf)|mbox|hbox|rm|emph)(?=\s*\{)", r"\\text"),
    (r"\{\\(?:rm|bf|it)\s+([^{}]*)\}", r"\\text{\1}"),
    (rf"\\(?:text|operatorname\*?)\s*\{{\s*({_FUNCTIONS})\s*\}}", r"\\\1"),
    (r"\\operatorname\*?\s*\{\s*(max|min|gcd|lcm)\s*\}", r"\\\1"),
    (r"\b([apAP])\.\s*([mM])\b\.?", r"\1\2"),
    (
        r"(?<=[\d}])\s*\\text\s*\{\s*(thousand|million|billion)\b\s*",
        lambda match: f"\\cdot {_POWERS[match[1]]}\\text{{",
    ),
    (r"(?<=[\d}])\s+(thousand|million|billion)\b", lambda match: f"\\cdot {_POWERS[match[1]]}"),
    (r"\\text\s*\{\s*\}", ""),
)
_COMMANDS = (
    (rf"\\[dtc]frac{_END}", r"\\frac"),
    (rf"\\[dt]binom{_END}", r"\\binom"),
    (rf"\{{?([^{{}}()\\]+)\\choose{_END}([^{{}}()\\]+)\}}?", r"\\binom{\1}{\2}"),
    (rf"\\(?:[lr]?[vV]ert|mid){_END}|\\\|", "|"),
    (rf"\\langle{_END}|\u3008", "\u27e8"),
    (rf"\\rangle{_END}|\u3009", "\u27e9"),
    (r"^<([^<>]*,[^<>]*)>$", "\u27e8\\1\u27e9"),
    (rf"\\lbrace{_END}", r"\\{"),
    (rf"\\rbrace{_END}", r"\\}"),
    (rf"\\lbrack{_END}", "["),
    (rf"\\rbrack{_END}", "]"),
    (rf"\\(?:leqslant|leq|le){_END}|<=", r"\\leq "),
    (rf"\\(?:geqslant|geq|ge){_END}|>=", r"\\geq "),
    (rf"\\(?:neq|ne){_END}|\\not\s*=|!=", r"\\neq "),
    (rf"\\lt{_END}", "<"),
    (rf"\\gt{_END}", ">"),
    (rf"\\(?:varnothing|oslash){_END}", r"\\emptyset "),
    (rf"\\(?:dots|cdots|dotsc|dotsb|ldots){_END}", r"\\ldots "),
    (rf"\\bigcup{_END}", r"\\cup "),
    (rf"\\(?:colon|ratio){_END}", ":"),
    (rf"\^\s*\{{\s*\\circ\s*\}}|\^\s*\\circ{_END}|\\degree{_END}", r"^{\\circ}"),
    (r"\(\s*\\?b?mod\s*(\w+)\s*\)|\\pmod\s*\{\s*(\w+)\s*\}|\\pmod\s*(\d+)", r"\\pmod{\1\2\3}"),
    (r"\\%", "%"),
    (r"(\w+!)(?=\^)", r"(\1)"),
)
_PLAIN = (
    (r"\*\*", "^"),
    (r"\b(?:np|math|sp|sympy)\.(?=[a-z])", ""),
    (rf"{_BARE}arc(?=sin|cos|tan)|{_BARE}a(?=(?:sin|cos|tan)\()", "arc"),
    (rf"{_BARE}inf(?:inity|ty)?{_END}", r"\\infty "),
    (rf"{_BARE}({_FUNCTIONS}|pi|theta|alpha|beta|lambda){_END}", r"\\\1 "),
    (r"^(-?\d{1,3}(?: \d{3})+)$", lambda match: match.group().replace(" ", "")),
    (r"^(\d+) to (\d+)$", r"\1:\2"),
)
_REWRITES = tuple((re.compile(pattern), new) for pattern, new in (*_BLANKS, *_TEXTS, *_COMMANDS, *_PLAIN))


@lru_cache(maxsize=8192)
def tidy(text: str) -> str:
    """`text` with one spelling for signs, blanks, arguments, brackets and text commands, without outer delimiters."""
    if not text.isascii():
        text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda match: f"^{{{match.group().translate(_SUPERSCRIPTS)}}}", text)
        text = re.sub("[₀₁₂₃₄₅₆₇₈₉]+", lambda match: f"_{{{match.group().translate(_SUBSCRIPTS)}}}", text)
        text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
    text = _LOST_BACKSLASH.sub(lambda match: "\\" + _ESCAPES[match.group(1)], text)
    text = _undress(re.sub(r"\.\.\.+", r"\\ldots ", text))
    text = re.sub(r"\\\\(?:\[[^\]]*\])?", ROW_END if "\\begin" in text else r"\\", text)
    num_open = text.count("{") - text.count("}") - text.count("\\{") + text.count("\\}")
    text += "}" * min(num_open, 3)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return _undress(re.sub(r"\s+", " ", _brace(text)).strip())


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """`tidy` without case, text commands and blanks (a blank between digits stays)."""
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", tidy(text)).casefold()
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text).rstrip(".")


_DRESS = (("\\boxed{", "}"), ("**", "**"), ("$$", "$$"), ("$", "$"), ("`", "`"), ('"', '"'), ("{", "}"))


def _undress(text: str) -> str:
    """Without outer box, dollar signs, bold marks, quotes, full stop, and braces around everything."""
    while True:
        bare = text.strip().rstrip("" if text.endswith("\\}") else "\\.,;").strip()
        for opening, closing in _DRESS:
            inner = bare[len(opening) : len(bare) - len(closing)]
            if not (len(bare) > len(opening) and bare.startswith(opening) and bare.endswith(closing)):
                continue
            if closing == "}" and closing_bracket(bare, len(opening) - 1) != len(bare) - 1:
                continue
            if closing == "$" and "$" in inner:
                continue
            bare = inner.strip()
        if bare == text:
            return text
        text = bare


_COMMAND = re.compile(r"\\(frac|binom|sqrt)(?![a-zA-Z])\s*|(\^|_)\s*(?=[-+]?\d{2}|[-+]\w|\()")


def _brace(text: str) -> str:
    r"""Braces around the arguments of `\frac`, `\binom`, `\sqrt` and around exponents of more than one character."""
    out, position = [], 0
    for match in _COMMAND.finditer(text):
        if match.start() < position:
            continue
        command = match.group(1) or match.group(2)
        out += [text[position : match.start()], "\\" if match.group(1) else "", command]
        position = match.end()
        if command == "sqrt" and text.startswith("[", position) and "]" in text[position:]:
            index, end = text[position + 1 : text.index("]", position)].strip(), text.index("]", position) + 1
            out.append("" if index == "2" else f"[{index}]")
            position = end
        is_pair = command in ("frac", "binom")
        for _ in range(2 if is_pair else 1):
            argument, position = _argument(text, position, whole=not is_pair)
            out.append(f"{{{_brace(argument)}}}")
    return "".join([*out, text[position:]])


def _argument(text: str, position: int, whole: bool) -> tuple[str, int]:
    """The argument at `position` and where it ends: a group, a command, else one character, or with `whole` one signed
    number or letter or round bracket.
    """
    while text.startswith(" ", position):
        position += 1
    if text.startswith(("{", "(") if whole else "{", position):
        end = closing_bracket(text, position)
        if end > 0:
            return text[position + 1 : end], end + 1
    token = re.match(r"[-+]?\d+|\\[a-zA-Z]+|[-+]?\w" if whole else r"\\[a-zA-Z]+|\S", text[position:])
    return (token.group(), position + token.end()) if token else ("", position)
