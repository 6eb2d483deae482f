"""Rules of the benchmarks that are not graded as pure mathematics: options, numbers with a tolerance, partial credit.

Each takes an extracted answer, the reference and the fields of its problem, and follows the benchmark's own grader:
`jeebench("AB", "ABD", {"type": "MCQ(multiple)"})` has the score 0.5. Numbers are compared in exact arithmetic, so that
a tolerance includes its bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from sif_trainer.tasks.choices import chosen_letter, letters
from sif_trainer.tasks.extract import last_number
from sif_trainer.tasks.numbers import number
from sif_trainer.tasks.verdict import Grade

Fields = Mapping[str, Any]
Accept = Callable[[Fraction, Fraction], bool]

_HUNDREDTH = Fraction(1, 100)


def gsm8k(prediction: str, gold: str, fields: Fields) -> Grade:
    """The last number: commas, currency and trailing zeros do not count, the sign does."""
    texts = [last_number(text) or text for text in (prediction, gold)]
    return _compare(texts[0], texts[1], lambda a, b: a == b, "the same number")


def mcq(prediction: str, gold: str, fields: Fields) -> Grade:
    """The option's letter, or its own text; all letters of a reference that has several."""
    right = letters(gold)
    if not right:
        return Grade.unparsable(prediction, "the reference is no option letter")
    chosen = letters(prediction) if len(right) > 1 else chosen_letter(prediction, fields.get("options"))
    if not chosen:
        return Grade.unparsable(prediction, "no option letter found")
    return Grade.correct(chosen, "the right option") if chosen == right else Grade.wrong(chosen, "another option")


def jeebench(prediction: str, gold: str, fields: Fields) -> Grade:
    """Options: all right 1, a part of them without a wrong one 0.25 each. Numbers: within 0.01."""
    kind = str(fields.get("type") or ("MCQ(multiple)" if re.fullmatch(r"[A-D]+", gold) else "Numeric"))
    if not kind.startswith("MCQ"):
        return _compare(prediction, gold, lambda a, b: abs(a - b) <= _HUNDREDTH, "within 0.01")
    if kind == "MCQ":
        return mcq(prediction, gold, {})
    chosen, right = letters(prediction), letters(gold)
    if chosen and chosen != right and set(chosen) < set(right):
        return Grade(0.25 * len(chosen), "wrong", chosen, f"{len(chosen)} of {len(right)} right options, none wrong")
    if not chosen:
        return Grade.unparsable(prediction, "no option letter found")
    return Grade.correct(chosen, "the right options") if chosen == right else Grade.wrong(chosen, "a wrong option")


def scibench(prediction: str, gold: str, fields: Fields) -> Grade:
    """Within 5 % of the larger value. A power of ten in the unit belongs to the reference, and may be left to the unit
    in a reply.
    """
    power = re.search(r"10\s*\^\s*\{?\s*([-+]?\d+)", str(fields.get("unit") or ""))
    factors = {Fraction(1), Fraction(10) ** int(power.group(1)) if power else Fraction(1)}

    def accept(value: Fraction, reference: Fraction) -> bool:
        return any(
            abs(value - scaled) <= 5 * _HUNDREDTH * max(abs(value), abs(scaled))
            for scaled in (reference * factor for factor in factors)
        )

    return _compare(prediction, gold, accept, "within 5 %")


def theoremqa(prediction: str, gold: str, fields: Fields) -> Grade:
    """By `type`: an option; a truth value; an integer after rounding; a number within 4 %; a sorted list of these."""
    kind = str(fields.get("type") or _theorem_type(gold))
    if kind == "option":
        return mcq(prediction, gold, {})
    if kind == "bool":
        chosen = _truth(prediction)
        if chosen is None:
            return Grade.unparsable(prediction, "neither true nor false")
        right = chosen == _truth(gold)
        return Grade.correct(str(chosen), "the same") if right else Grade.wrong(str(chosen), "the opposite")
    accept: Accept = _rounds_to if kind.endswith("integer") else _within_4_percent
    if kind.startswith("list"):
        return _compare_lists(prediction, gold, accept)
    why = "the same integer after rounding" if kind == "integer" else "within 4 %"
    return _compare(prediction, gold, accept, why, percent=_HUNDREDTH)


def within_tolerance(prediction: str, gold: str, fields: Fields) -> bool:
    """Whether a number is within the item's absolute `tolerance` (OlympiadBench); False for an item without one."""
    if not fields.get("tolerance"):
        return False
    is_percent = "%" in str(fields.get("unit") or "")
    value = numeric(prediction, Fraction(1) if is_percent else _HUNDREDTH)
    reference = numeric(gold)
    if value is None or reference is None:
        return False
    return abs(value - reference) <= Fraction(str(fields["tolerance"]))


def numeric(text: str, percent: Fraction = Fraction(1)) -> Fraction | None:
    """A number in any spelling, without unit and what stands before `=`, or None. `percent`: what `%` is worth."""
    from sif_trainer.tasks.shapes import Relation, Value, read
    from sif_trainer.tasks.values import magnitude

    shape = read(text)
    if isinstance(shape, Relation):
        shape = shape.sides[-1]
    if not isinstance(shape, Value):
        return None
    value = number(shape.text)
    if value is None:
        size = magnitude(shape.text)
        value = Fraction(str(size)) if size is not None and abs(size) < 10**300 else None
    return value * percent if value is not None and shape.percent else value


def _compare(prediction: str, gold: str, accept: Accept, what: str, percent: Fraction = Fraction(1)) -> Grade:
    """Compare two numbers by `accept(prediction, gold)`."""
    value, reference = numeric(prediction, percent), numeric(gold, percent)
    if reference is None:
        return Grade.unparsable(prediction, "the reference is no number")
    if value is None:
        return Grade.unparsable(prediction, "not a number")
    return Grade.correct(prediction, what) if accept(value, reference) else Grade.wrong(prediction, f"not {what}")


def _compare_lists(prediction: str, gold: str, accept: Accept) -> Grade:
    values, references = _numbers(prediction), _numbers(gold)
    if references is None:
        return Grade.unparsable(prediction, "the reference is no list of numbers")
    if values is None:
        return Grade.unparsable(prediction, "not a list of numbers")
    pairs = zip(sorted(values), sorted(references), strict=False)
    if len(values) == len(references) and all(accept(a, b) for a, b in pairs):
        return Grade.correct(prediction, "the same list")
    return Grade.wrong(prediction, "another list")


def _numbers(text: str) -> list[Fraction] | None:
    """The numbers of a list in any brackets, or None when a part is no number."""
    from sif_trainer.tasks.shapes import Group, Value, read

    shape = read(text)
    parts = shape.parts if isinstance(shape, Group) else (shape,)
    values = [numeric(part.text) for part in parts if isinstance(part, Value)]
    known = [value for value in values if value is not None]
    return known if len(known) == len(parts) else None


def _rounds_to(value: Fraction, reference: Fraction) -> bool:
    return round(value) == reference


def _within_4_percent(value: Fraction, reference: Fraction) -> bool:
    return abs(value - reference) <= 4 * _HUNDREDTH * abs(reference)


def _theorem_type(gold: str) -> str:
    """The type of a reference that states none."""
    gold = gold.strip()
    if gold.casefold() in ("true", "false"):
        return "bool"
    if gold.startswith("["):
        return "list of float"
    if re.fullmatch(r"\(?[a-dA-D]\)?", gold):
        return "option"
    return "integer" if re.fullmatch(r"[-+]?\d+", gold) else "float"


def _truth(text: str) -> bool | None:
    """True or false where a text says one and not the other, in whole words."""
    words = set(re.findall(r"[a-z]+", text.casefold()))
    says_true, says_false = bool(words & {"true", "yes"}), bool(words & {"false", "no"})
    return says_true if says_true != says_false else None
