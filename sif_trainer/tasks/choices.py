r"""Letters of options in an answer or a reply: `letters("A and C")` is "AC"; `chosen_letter("(B)\\ 3.3\\
\\mathrm{MeV}")` is "B".

Only letters that stand as an option count: a unit's letters after `(B)` do not, and neither does a word's initial.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sif_trainer.tasks.extract import final_answer
from sif_trainer.tasks.spelling import canonical

_DRESS = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|rm)|boxed|rm)(?![a-z])\s*\{?|\\[,;:! ]|[{}$*\\]")
_TOKEN = re.compile(r"[A-Za-z]+|[^\s\w(),.;:&/+]|\d")
_NOUNS = {"option", "options", "choice", "choices", "answer", "answers", "and"}
_ONE = re.compile(
    r"(?:(?:options?|choices?|answers?)\s*:?\s*)?\(?\s*[A-Ja-j]\s*(?:[).:,]|\s(?=[^a-z]))", re.IGNORECASE
)
_STANDING = re.compile(r"\(([A-J])\)|(?<![A-Za-z\\])([B-HJ]|A(?!\s+[a-z]))(?![A-Za-z'])")


def letters(answer: str) -> str:
    """The option letters an answer consists of, or begins with, sorted, in capitals, each once; "" when it has none.

    Several letters may be followed by words ("A and C are right"); one letter must be set off from what follows.
    """
    plain = " ".join(_DRESS.sub(" ", answer).split())
    found: list[str] = []
    is_whole = True
    for token in _TOKEN.findall(plain):
        if re.fullmatch(r"[A-Ja-j]|[A-J]{2,}", token):
            found += token
        elif token.casefold() not in _NOUNS:
            is_whole = False
            break
    if not is_whole and any(map(str.isupper, found)):
        found = [letter for letter in found if letter.isupper()]  # not the article in "(B) a cat"
    chosen = "".join(sorted({letter.upper() for letter in found}))
    return chosen if is_whole or len(chosen) > 1 or _ONE.match(plain) else ""


def chosen_letter(answer: str, options: Sequence[str] | None) -> str | None:
    """The one option an answer names, by its letter or by the option's own text; None for none or several."""
    found = letters(answer)
    if len(found) == 1:
        return found
    for index, option in enumerate(options or ()):
        if canonical(answer) == canonical(str(option)):
            return chr(65 + index)
    standing = {bracketed or bare for bracketed, bare in _STANDING.findall(answer)}
    return standing.pop() if len(standing) == 1 and not found else None


def settled_letter(reply: str) -> str | None:
    """What a reply settles on: its final answer, else the last letter that stands alone near its end, else a reply of
    one line.
    """
    answer = final_answer(reply)
    if answer is not None:
        return answer
    standing: list[tuple[str, str]] = _STANDING.findall(reply[-400:])
    if standing:
        return standing[-1][0] or standing[-1][1]
    return reply if len(reply) < 100 and "\n" not in reply else None
