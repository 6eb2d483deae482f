r"""Finding the answer in a reply."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.tasks.choices import chosen_letter, letters, settled_letter
from sif_trainer.tasks.extract import boxes, final_answer, last_box, last_number

BALANCED = st.recursive(
    st.text(alphabet="ab1+ ", max_size=5), lambda inner: st.builds("{{{}}}{}".format, inner, inner), max_leaves=8
)


@given(content=BALANCED, before=st.text(max_size=50), after=st.text(alphabet="xyz .,$\n", max_size=50))
def test_the_content_of_a_box_comes_back_whole(content: str, before: str, after: str) -> None:
    text = f"{before} \\boxed{{{content}}}{after}"
    assert last_box(text) == (content.strip() or last_box(before))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{1} then \boxed{2}", ["1", "2"]),
        (r"\boxed{} and \boxed{2}", ["2"]),
        (r"\boxed is a command", []),
        (r"\fbox{3}", ["3"]),
        (r"\boxed 7", ["7"]),
        (r"\boxed{\{1,2\}}", [r"\{1,2\}"]),
        (r"$\boxed{\frac{1}{2}$ and on", [r"\frac{1}{2}"]),
        ("no box", []),
    ],
)
def test_boxes_are_found_in_reading_order(text: str, expected: list[str]) -> None:
    assert boxes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is 5.", "5"),
        ("The final answer is: **5**", "5"),
        ("**Answer:** $x=5$", "x=5"),
        ("The answer to the question is (C).", "(C)"),
        ("Answer: 3.5 metres. Done.", "3.5 metres"),
        ("so it is\n#### 1,234", "1,234"),
        ("It follows that $x = 2$.", "x = 2"),
        ("$x = 2$ is one root, but we go on", None),
        ("", None),
    ],
)
def test_an_answer_without_a_box_must_be_announced_or_end_the_reply(text: str, expected: str | None) -> None:
    assert final_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("54 beads, in total", "54"),
        ("10-15 of them", "15"),
        ("minus: -15", "-15"),
        ("3 - 15", "15"),
        ("$1,234.50.", "1,234.50"),
        ("a1b2", "2"),
        ("none", None),
    ],
)
def test_the_last_number_is_read_with_its_sign_and_commas(text: str, expected: str | None) -> None:
    assert last_number(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("A and C", "AC"),
        ("C, A", "AC"),
        ("ACD", "ACD"),
        (r"\text{(A), (C)}", "AC"),
        (r"(B)\ 3.3\ \mathrm{MeV}", "B"),
        ("B. weather", "B"),
        ("a cat", ""),
        ("12", ""),
        ("None", ""),
    ],
)
def test_letters_of_options(text: str, expected: str) -> None:
    assert letters(text) == expected


def test_an_option_may_be_named_by_its_text() -> None:
    assert chosen_letter("Climate", ["weather", "climate"]) == "B"
    assert chosen_letter("storm", ["weather", "climate"]) is None


def test_a_reply_without_an_announcement_settles_on_its_last_letter() -> None:
    assert settled_letter("(A) cannot be, since it is cold.\nSo it must be (C)") == "C"
    assert settled_letter("I do not know\nat all") is None


def test_a_reply_of_ten_megabytes_costs_no_more_than_one_of_fifty_kilobytes() -> None:
    long = "answer is \\boxed{" * 600_000
    start = time.process_time()
    final_answer(long)
    assert time.process_time() - start < 5
