"""The rules that grade, by the names used in files, and where each looks for the answer in a reply.

`judge("4.25", "4.2", "olympiadbench", {"tolerance": "1e-1"})` is a correct grade. Rules follow the benchmarks' own
graders, with the policies of docs/benchmarks.md where public graders disagree. `extract` needs no sympy; `judge` loads
it, in the worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sif_trainer.tasks.choices import letters, settled_letter
from sif_trainer.tasks.exam_rules import Fields, gsm8k, jeebench, mcq, scibench, theoremqa, within_tolerance
from sif_trainer.tasks.extract import boxes, final_answer, last_box, last_number
from sif_trainer.tasks.screen import unsafe_text
from sif_trainer.tasks.verdict import Grade, Item

FIELDS = ("unit", "type", "tolerance", "options", "rtol", "dataset", "entry")  # all that any rule reads


@dataclass(frozen=True)
class Rule:
    """How a rule finds the answer in a reply, and how it compares an answer with the reference."""

    find: Callable[[str, Fields], str | None]
    compare: Callable[[str, str, Fields], Grade]


def extract(item: Item) -> str | None:
    """The answer that is graded: the prediction itself, or what the rule finds in the reply, or None."""
    if item.kind == "answer":
        return last_box(item.prediction) or item.prediction
    return RULES[item.rule].find(item.prediction, item.fields)


def judge(prediction: str, gold: str, rule: str, fields: Fields) -> Grade:
    """Compare an extracted answer with the reference. May be slow or large: call it in a worker."""
    return RULES[rule].compare(prediction, gold, fields)


def _boxed(text: str, fields: Fields) -> str | None:
    return final_answer(text) or _bare(text)


def _bare(text: str) -> str | None:
    """A reply that is nothing but an answer: one short line with at most two words."""
    words = re.findall(r"(?<!\\)\b[A-Za-z]{2,}", text)
    return text.strip() if "\n" not in text.strip() and len(text) <= 80 and len(words) <= 2 else None


def _all_boxed(text: str, fields: Fields) -> str | None:
    """All boxes joined by commas, equal ones once, as OlympiadBench reads several answers."""
    return ", ".join(dict.fromkeys(boxes(text))) or _boxed(text, fields)


def _last_number(text: str, fields: Fields) -> str | None:
    answer = final_answer(text)
    return answer if answer is not None and last_number(answer) is not None else last_number(text)


def _option(text: str, fields: Fields) -> str | None:
    return settled_letter(text)


def _exam_answer(text: str, fields: Fields) -> str | None:
    if str(fields.get("type", "")).startswith("MCQ"):
        answer = final_answer(text)
        return answer if answer is not None and letters(answer) else settled_letter(text)
    return _boxed(text, fields) or last_number(text)


def _decoded_word(text: str, fields: Fields) -> str | None:
    from sif_trainer.tasks.cipher import world

    return world.extract(text)


def _tagged(text: str, fields: Fields) -> str | None:
    """The content of the last `<answer>` tags, which reasoning-gym's prompts ask for, else the final answer, else a
    short reply.
    """
    tags = re.findall(r"<answer>(.*?)</answer>", text[-20_000:], re.DOTALL)
    return tags[-1].strip() if tags else _boxed(text, fields)


def _math(prediction: str, gold: str, fields: Fields) -> Grade:
    from sif_trainer.tasks.equality import equal
    from sif_trainer.tasks.values import Unreadable

    try:
        right = equal(gold, prediction, str(fields.get("unit") or ""), fields.get("rtol"))
    except Unreadable as error:
        return Grade.unparsable(prediction, str(error))
    return Grade.correct(prediction, "equal") if right else Grade.wrong(prediction, "not equal to the reference")


def _olympiadbench(prediction: str, gold: str, fields: Fields) -> Grade:
    """As `math`, or within the item's absolute tolerance where it has one."""
    if within_tolerance(prediction, gold, fields):
        return Grade.correct(prediction, f"within {fields['tolerance']}")
    return _math(prediction, gold, fields)


def _cipher(prediction: str, gold: str, fields: Fields) -> Grade:
    return Grade.correct(prediction, "the word") if prediction == gold else Grade.wrong(prediction, "another word")


def _reasoning_gym(prediction: str, gold: str, fields: Fields) -> Grade:
    """The score of the data set's own scorer; `fields` hold its name (`dataset`) and the problem's `entry`."""
    import reasoning_gym

    scorer = reasoning_gym.get_score_answer_fn(str(fields["dataset"]))
    score = float(scorer(prediction, fields["entry"]))
    if score == 1.0:
        return Grade.correct(prediction, "the data set's scorer")
    return Grade(score, "wrong", prediction, f"the data set's scorer gives {score:g}")


RULES: dict[str, Rule] = {
    "math": Rule(_boxed, _math),
    "gsm8k": Rule(_last_number, gsm8k),
    "mcq": Rule(_option, mcq),
    "scibench": Rule(_boxed, scibench),
    "theoremqa": Rule(_boxed, theoremqa),
    "jeebench": Rule(_exam_answer, jeebench),
    "olympiadbench": Rule(_all_boxed, _olympiadbench),
    "cipher": Rule(_decoded_word, _cipher),
    "reasoning_gym": Rule(_tagged, _reasoning_gym),
}


_MAX_WORDS = 5  # a longer phrase can be put in many ways
_NO_MATHS = re.compile(  # left in a value, it is prose or notation that the parser does not know
    r"(?<![a-zA-Z\\])[a-zA-Z]{4,}|[@&\ue000]|\\(?:begin|perp|parallel|equiv|nmid|rightarrow|to|leftrightarrow|ldots|bullet"
    r"|forall|exists|mathbb|cup|cap|simeq|sup|inf)(?![a-zA-Z])"
)


def reads(rule: str, gold: str) -> bool:
    """Whether the rule can read a reference, judged from its text alone; one that it cannot is compared as text."""
    if unsafe_text(gold):
        return False
    if rule in ("gsm8k", "scibench"):
        return last_number(gold) is not None
    if rule == "mcq":
        return bool(letters(gold))
    if rule not in ("math", "olympiadbench"):
        return True
    from sif_trainer.tasks.shapes import Words, leaves, read

    parts = list(leaves(read(gold)))
    values = [re.sub(r"\\text\s*\{[^{}]*\}", "", part.text) for part in parts if not isinstance(part, Words)]
    num_words = sum(len(part.text.split()) for part in parts if isinstance(part, Words))
    return num_words <= _MAX_WORDS and not any(map(_NO_MATHS.search, values))
