r"""10,000 hostile answers: none may hang, crash or slow the grader, whatever rule they meet."""

from __future__ import annotations

import random
import time

import pytest

from sif_trainer.tasks.grade import grade, grade_many
from sif_trainer.tasks.rules import RULES
from sif_trainer.tasks.verdict import Item

NUM_STRINGS = 10_000
ITEM_SECONDS = 10.0
RULES_MET = sorted(set(RULES) - {"cipher", "reasoning_gym"})


def tower(rng: random.Random) -> str:
    """Exponents on exponents, in every notation."""
    text = str(rng.randint(2, 99))
    for _ in range(rng.randint(2, 9)):
        inner = rng.choice(["{%s}", "(%s)", "%s"]) % text
        text = f"{rng.randint(2, 99)}{rng.choice(['^', '**'])}{inner}"
    return text


def nested(rng: random.Random) -> str:
    """Brackets and commands in one another, closed or not."""
    depth = rng.choice([5, 30, 300, 5000])
    pairs = [("{", "}"), ("(", ")"), ("[", "]"), ("\\frac{1}{", "}"), ("\\sqrt{", "}"), ("\\left(", "\\right)")]
    opening, closing = rng.choice(pairs)
    return opening * depth + "1" + closing * (depth if rng.random() < 0.5 else 0)


def digits(rng: random.Random) -> str:
    """Long numbers."""
    return "".join(rng.choices("0123456789", k=rng.choice([50, 900, 5000, 50_000])))


GROWTH = r"""
n!|(n!)!|n!!|\binom{n}{m}|n^{m}|2^{n}-2^{m}|\sum_{k=1}^{n} k^{m}|\prod_{k=1}^{n} k!|(x+1)^{n}|(x+y+z)^{m}|\sin(n^{m})
\lfloor \pi^{n} \rfloor|\int_0^{n} x^{m} dx|n \bmod m|\exp(\exp(n))|1en|\frac{1}{n^{m}}|\sqrt[n]{m}|x^{n}<m|\gcd(n, m)
\log_{n}(m^{n})|n\%|\lim_{x\to 0} \frac{\sin^{m} x}{x^{n}}|x^{n}+y^{m}=1|[n!, m!]|\{n^{m}\}|\binom{n!}{m}|n^{m}_{9}
"""


def growth(rng: random.Random) -> str:
    """Short expressions with huge values."""
    text = rng.choice(GROWTH.strip().replace("\n", "|").split("|"))
    numbers = {"n": rng.choice([30, 500, 10**4, 10**6, 10**12]), "m": rng.choice([3, 10**3, 10**9])}
    words = ("\\binom", "\\int", "\\sin", "\\lim", "\\bmod", "\\prod", "\\sum")  # their letters are no variables
    for index, word in enumerate(words):
        text = text.replace(word, chr(0xE100 + index))
    for name, value in numbers.items():
        text = text.replace(name, str(value))
    for index, word in enumerate(words):
        text = text.replace(chr(0xE100 + index), word)
    return text


def noise(rng: random.Random) -> str:
    """Characters and commands at random, control characters and other scripts among them."""
    alphabet = (
        "0123456789abcxyz+-*/^_=<>(){}[]|\\,.;:!%$ &~'\"\n\t\x00\x07\ue000\u00e9\u00df\u4e2d\U0001f642\u00b2\u00bd"
    )
    alphabet += "\u221a\u221e\u2264\u202e\ud7ff"
    words = ["\\frac", "\\sqrt", "\\begin{pmatrix}", "\\end{pmatrix}", "\\boxed{", "\\text{", "\\left", "\\cup"]
    words += ["\\pm", "\\in", "\\{", "\\\\"]
    size = rng.choice([3, 12, 60, 400])
    return "".join(rng.choice(words) if rng.random() < 0.2 else rng.choice(alphabet) for _ in range(size))


def lists(rng: random.Random) -> str:
    """Many parts with many kinds of joints."""
    part = rng.choice(["1", "(1,2)", "x=1", "[0,1)", "\\pm 1", "a_1", "1:2", "\\text{a}"])
    joint = rng.choice([",", ";", "\\cup", " or ", " and ", "=", "<", "\\pm ", "&", "\\\\"])
    return joint.join([part] * rng.choice([2, 20, 200, 3000]))


def announcements(rng: random.Random) -> str:
    """Beginnings of answers, over and over."""
    start = rng.choice(["\\boxed{", "\\boxed", "\\fbox{{", "\\boxed{\\boxed{", "$", "$$", "**", "####", "answer is "])
    return start * rng.choice([3, 300, 30_000])


KINDS = (tower, nested, digits, growth, noise, lists, announcements)
GOLDS = ["7", r"\frac{1}{2}", "x^2+1", "(1,2)", "1,2,3", r"(-\infty,3]", r"\text{Evelyn}", "x=5", "28_9", "2^{100}"]
GOLDS += [r"\begin{pmatrix}1\\2\end{pmatrix}"]
OTHER_GOLDS = {"mcq": ["B"], "jeebench": ["ABD"], "gsm8k": ["7919"], "scibench": ["0.271"], "theoremqa": ["0.271"]}
FIELDS = {
    "jeebench": {"type": "MCQ(multiple)"},
    "theoremqa": {"type": "float"},
    "scibench": {"unit": "$10^{3}$ m"},
    "olympiadbench": {"tolerance": "1e-2"},
}


def hostile_items() -> list[Item]:
    """The same items on every run: half of them for `math`, half for the other rules, as answers and as replies."""
    rng = random.Random(20)
    items = []
    for index in range(NUM_STRINGS):
        rule = rng.choice(RULES_MET) if index % 2 else "math"
        text = rng.choice(KINDS)(rng)
        if rng.random() < 0.25:
            text = f"so \\boxed{{{text}}}"
        gold = rng.choice(OTHER_GOLDS.get(rule, GOLDS))
        items.append(Item(text, gold, rule, rng.choice(["answer", "response"]), FIELDS.get(rule, {})))
    return items


def test_ten_thousand_hostile_strings_come_back_graded() -> None:
    items = hostile_items()
    grades = grade_many(items)
    assert len(grades) == NUM_STRINGS
    assert {grade.verdict for grade in grades} <= {"correct", "wrong", "unparsable"}
    assert all(0.0 <= grade.score <= 1.0 for grade in grades)
    assert sum(grade.score > 0 for grade in grades) < 0.01 * NUM_STRINGS


KILLERS = [
    *[
        "10^{10^{10}}",
        "9**9**9**9",
        "9^9^9^9",
        "3^{3^{3^{3^{3}}}}+1",
        "2^{2^{40}}",
        "e^{e^{e^{10}}}",
        "(x+1)^{100000}",
    ],
    *["9" * 1_000_000, "(" * 100_000, "{" * 1_000_000, "\\frac{" * 50_000, "x" * 1_000_000, "\\boxed{" * 100_000],
    *["100000!!", "((10^9)!)!", "\\binom{10^{9}}{5\\cdot 10^{8}}", "\\sum_{k=1}^{10^{10}} k", "\\sin(10^{10^{6}})"],
    *["\x00" * 1000, "1\x00", "\ud800", "\u0663\u0664\u0665", "1" + ",1" * 10_000, "x=" * 5000, "\\pm" * 40 + "1"],
    *["1/0", "\\frac{0}{0}", "\\infty-\\infty", "0.\\overline{3}", "-" * 5000 + "1", "[" * 500 + "1" + "]" * 500],
]


@pytest.mark.parametrize("kind", ["answer", "response"])
@pytest.mark.parametrize("text", KILLERS, ids=lambda text: ascii(text[:20]))
def test_each_of_the_known_killers_is_answered_within_its_limit(text: str, kind: str) -> None:
    start = time.monotonic()
    scores = [grade(text, gold, "math", kind).score for gold in ("7", "x^2+1", text[:50])]  # type: ignore[arg-type]
    assert scores[:2] == [0.0, 0.0] and scores[2] in (0.0, 1.0)
    assert time.monotonic() - start < 3 * ITEM_SECONDS


def test_a_huge_reference_is_no_trap_either() -> None:
    assert grade("7", "10^{10^{10^{10}}}", kind="answer").score == 0.0
    assert grade("10^{10^{10}}", "10^{10^{10}}", kind="answer").score == 1.0
    assert grade("9" * 10_000, "9" * 10_000, kind="answer").score == 1.0
