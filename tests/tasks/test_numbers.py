r"""Plain numbers are read exactly, in any spelling; different ones stay different."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.tasks.numbers import has_decimal, number
from sif_trainer.tasks.spelling import tidy
from sif_trainer.tasks.values import close, same_value

FRACTIONS = st.fractions(min_value=-10_000, max_value=10_000, max_denominator=500)


def spellings(value: Fraction) -> list[str]:
    """Ways to write a rational number."""
    sign, above, below = ("-" if value < 0 else ""), abs(value.numerator), value.denominator
    whole, rest = divmod(above, below)
    texts = [f"{sign}{above}/{below}", rf"{sign}\frac{{{above}}}{{{below}}}", rf"\dfrac{{{sign}{above}}}{{{below}}}"]
    texts.append(rf"{sign}\frac{{{2 * above}}}{{{2 * below}}}")
    if whole and rest:
        texts.append(rf"{sign}{whole}\frac{{{rest}}}{{{below}}}")
    if below == 1:
        texts += [f"{int(value):,}", f"{value}.0", f"{sign}00{above}", rf"{value}\times 10^{{0}}"]
    return texts


@given(FRACTIONS)
def test_every_spelling_of_a_rational_is_that_rational(value: Fraction) -> None:
    assert {number(tidy(text)) for text in spellings(value)} == {value}


@given(FRACTIONS, FRACTIONS)
def test_values_are_equal_exactly_when_the_rationals_are(first: Fraction, second: Fraction) -> None:
    assert same_value(tidy(spellings(first)[0]), tidy(spellings(second)[1])) == (first == second)


@given(st.integers(-(10**40), 10**40), st.integers(-30, 30))
def test_powers_of_ten_are_exact(mantissa: int, exponent: int) -> None:
    value = mantissa * Fraction(10) ** exponent
    for text in (f"{mantissa}e{exponent}", rf"{mantissa} \times 10^{{{exponent}}}", rf"{mantissa}\cdot 10^{exponent}"):
        assert number(tidy(text)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"0.\overline{142857}", Fraction(1, 7)),
        ("0.333...", Fraction(1, 3)),
        (r"2.5\ldots", Fraction(5, 2)),
        ("1,234,567", Fraction(1234567)),
        ("1,23", None),
        ("1/0", None),
        ("x", None),
        ("", None),
        ("10^{99999}", None),
    ],
)
def test_odd_spellings(text: str, value: Fraction | None) -> None:
    assert number(tidy(text)) == value


def test_only_a_written_decimal_has_a_tolerance() -> None:
    assert (
        has_decimal("3.0") and has_decimal("1e-3") and not has_decimal("22/7") and not has_decimal(r"0.\overline{3}")
    )
    assert same_value("1000000.5", "1000000") and not same_value("1000001", "1000000")


def test_the_tolerance_is_relative_to_the_larger_magnitude_and_includes_its_bound() -> None:
    tenth = Fraction(1, 10)
    assert close(Fraction(9), Fraction(10), tenth) and not close(Fraction(10), Fraction(12), tenth)
    assert close(Fraction(0), Fraction(0), tenth) and not close(Fraction(0), Fraction(1, 10**9), tenth)
