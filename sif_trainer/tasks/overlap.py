"""Which evaluation problems stand in the training prompts: the same text, or one that shares most of its words in
order.

    report = find_overlap(evaluation={"q1": "What is 2+2?"}, training={"t1": "What is 2 + 2 ?"})
    kept = [problem for problem in problems if problem.id not in report.ids]

Two texts are *the same* when their letters and digits are, in order and without case. They are *near* when at least
`min_share` of the evaluation problem's runs of `num_words` words stand in one training prompt: a reworded or extended
copy. Numbers count as words, so that an exercise with other numbers is no copy.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sif_trainer.runs.errors import UserError

_WORD = re.compile(r"[a-z]+|\d+")


@dataclass(frozen=True)
class Match:
    """An evaluation problem and the training prompt that holds it; `share` of its runs of words (1.0 for the same
    text).
    """

    evaluation_id: str
    training_id: str
    share: float
    is_same: bool


@dataclass(frozen=True)
class Overlap:
    """All matches; `ids` are the evaluation problems to drop."""

    matches: tuple[Match, ...]
    num_problems: int

    @property
    def ids(self) -> frozenset[str]:
        """Evaluation problems with any match."""
        return frozenset(match.evaluation_id for match in self.matches)

    def explain(self) -> str:
        """The counts in a line."""
        same = len({match.evaluation_id for match in self.matches if match.is_same})
        near = len(self.ids) - same
        return f"{same} of {self.num_problems} problems stand in the training prompts word for word, {near} nearly so"


def find_overlap(
    evaluation: Mapping[str, str], training: Mapping[str, str], num_words: int = 10, min_share: float = 0.8
) -> Overlap:
    """Match problem texts by id against training prompts by id.

    Every exact match is listed; of near matches the best one per problem. Problems of fewer than `num_words` words
    match exactly only.
    """
    exact: dict[str, list[str]] = defaultdict(list)
    runs: dict[int, set[str]] = defaultdict(set)
    wanted = {run for text in evaluation.values() for run in _runs(text, num_words)}
    for name, text in training.items():
        exact[letters_and_digits(text)].append(name)
        for run in _runs(text, num_words):
            if run in wanted:
                runs[run].add(name)
    matches: list[Match] = []
    for name, text in evaluation.items():
        same = exact.get(letters_and_digits(text), [])
        matches += [Match(name, other, 1.0, True) for other in same]
        if not same:
            matches += _near(name, set(_runs(text, num_words)), runs, min_share)
    return Overlap(tuple(matches), len(evaluation))


def letters_and_digits(text: str) -> str:
    """The text's letters and digits without case, nothing between them."""
    return "".join(character for character in text.casefold() if character.isalnum())


def _near(name: str, own: set[int], runs: Mapping[int, set[str]], min_share: float) -> list[Match]:
    counts = Counter(other for run in own for other in runs.get(run, ()))
    if not counts:
        return []
    other, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    share = count / len(own)
    return [Match(name, other, share, False)] if share >= min_share else []


def _runs(text: str, num_words: int) -> Iterator[int]:
    """Hashes of all runs of `num_words` words."""
    words = _WORD.findall(text.casefold())
    for start in range(len(words) - num_words + 1):
        yield hash(tuple(words[start : start + num_words]))


def prompt_text(row: Mapping[str, Any]) -> str:
    """The text of a prompt's row: its problem, or its messages without the system's."""
    for column in ("problem", "prompt", "question"):
        value = row.get(column)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(str(message["content"]) for message in value if message.get("role") != "system")
    raise UserError(f"row {row.get('id')}: no column problem, prompt or question; it has: {', '.join(row)}")
