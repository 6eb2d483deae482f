"""A language model as the source of BALAR's numbers: structured replies, each stage's calls in one batch.

    elicitor = PolicyElicitor(load_policy("http://localhost:8000/v1", cache=run.path / "calls.sqlite"), config)
    elicitor.priors(case, dimensions, log=())

Any policy will do; one that constrains its output to a schema seldom needs a second attempt, and `labels.py` is for
models that cannot write JSON. A reply that is not valid (broken JSON, a cell missing or given twice) is asked for
again, up to `max_attempts` times in all; then `NoValidReply` ends the case, or the expansion is given up. Duplicates
are merged as they come in: tables are read by number, so that equal texts never stand for one another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sif_trainer.policy import Policy, Sampling
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar import prompts, schemas
from sif_trainer.systems.balar.belief import as_probabilities
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.parts import Case, Dimension, Log, Question, Row, Table, Triple, plain
from sif_trainer.systems.balar.prompts import Messages
from sif_trainer.systems.balar.schemas import Schema

T = TypeVar("T")

LIST_TOKENS = 200
"""For each dimension or question of a list; replies are short, and an endless one must end."""
LABEL_TOKENS = 80
"""For each label with its reason."""
TEXT_TOKENS = 600
"""For a final answer or a verdict."""


class NoValidReply(UserError):
    """The model gave no usable reply to one of a case's prompts; other cases may fare better."""


class Invalid(Exception):
    """A reply fits its schema but not its question; the text says why, for the model to read."""


class PolicyElicitor:
    """Asks a policy. `counts` grows with `num_merged`, `num_verified` and `num_corrected`."""

    def __init__(
        self,
        policy: Policy,
        config: BalarConfig,
        sampling: Sampling | None = None,
        *,
        max_attempts: int = 10,
        show_schema: bool = True,
        concurrent: bool = False,
    ) -> None:
        """Take a policy and the settings.

        Args:
            policy: the model; with a cache, a run that was killed repeats no call.
            config: the settings of the loop.
            sampling: temperature, top_p and seed; the stages set `max_tokens`. Default: temperature 0.1 (released).
            max_attempts: for each prompt.
            show_schema: write the schema into the prompts; in vain where the engine enforces it.
            concurrent: whether the policy may be called from several threads, as a server may; batches that need
                nothing of one another are then sent at the same time.
        """
        self.policy = policy
        self.config = config
        self.sampling = sampling or Sampling(temperature=0.1)
        self.max_attempts = max_attempts
        self.show_schema = show_schema
        self.concurrent = concurrent
        self.counts: Counter[str] = Counter(num_merged=0, num_verified=0, num_corrected=0)
        self.weights = {"likely": config.likely, "neutral": config.neutral, "unlikely": config.unlikely}

    # Open lists.

    def dimensions(self, case: Case) -> list[Dimension]:
        num, max_values = self.config.num_dimensions, self.config.max_values
        prompt = prompts.dimensions(case, num, max_values)
        schema = schemas.dimensions(num, max_values)

        def read(value: Any) -> list[Dimension]:
            return self._distinct_dimensions(value["dimensions"], ())

        return self._ask_one(case, "dimensions", prompt, schema, read, LIST_TOKENS * num)

    def new_dimension(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> Dimension | None:
        max_values = self.config.max_values
        prompt = prompts.new_dimension(case, dimensions, log, max_values)

        def read(value: Any) -> Dimension:
            return self._distinct_dimensions([value], dimensions)[0]

        schema = schemas.new_dimension(max_values)
        try:
            return self._ask_one(case, "new dimension", prompt, schema, read, LIST_TOKENS)
        except NoValidReply:  # the loop goes on with the questions that it has
            return None

    def questions(self, case: Case, dimensions: Sequence[Dimension]) -> list[Question]:
        num = self.config.num_questions
        return self._questions(case, dimensions, (), (), num, num)

    def new_questions(
        self, case: Case, dimensions: Sequence[Dimension], known: Sequence[Question], log: Log
    ) -> list[Question]:
        try:
            return self._questions(case, dimensions, known, log, 1, self.config.num_new_questions)
        except NoValidReply:  # the new dimension stays, for the questions that are still open
            return []

    def _questions(
        self,
        case: Case,
        dimensions: Sequence[Dimension],
        known: Sequence[Question],
        log: Log,
        at_least: int,
        at_most: int,
    ) -> list[Question]:
        max_choices = self.config.max_choices
        prompt = prompts.questions(case, dimensions, known, log, at_most, max_choices)
        schema = schemas.questions(at_least, at_most, max_choices)

        def read(value: Any) -> list[Question]:
            seen = {plain(question.text) for question in known}
            found = []
            for item in value["questions"]:
                choices = ("yes", "no") if max_choices == 2 else self._distinct(item["choices"])
                if plain(item["text"]) and plain(item["text"]) not in seen and len(choices) > 1:
                    seen.add(plain(item["text"]))
                    found.append(Question(item["text"].strip(), choices, item["reason"]))
            self.counts["num_merged"] += len(value["questions"]) - len(found)
            if not found:
                raise Invalid("no question is new and has two different choices")
            return found

        return self._ask_one(case, "questions", prompt, schema, read, LIST_TOKENS * at_most)

    # Labels.

    def priors(self, case: Case, dimensions: Sequence[Dimension], log: Log) -> list[Row]:
        cells = [(dimension, value) for dimension in dimensions for value in dimension.values]
        asked = [prompts.prior(case, dimension, value, log) for dimension, value in cells]
        judged = iter(self._judge(case, "priors", asked))
        return [self._row([next(judged) for _ in dimension.values]) for dimension in dimensions]

    def tables(self, case: Case, triples: Sequence[Triple], log: Log) -> list[Table]:
        asked = [prompts.table(case, triple, log) for triple in triples]
        sizes = [(len(triple.dimension.values), len(triple.question.choices)) for triple in triples]
        tables = self._grids(case, "likelihood tables", asked, sizes)
        return self._verified(case, asked, sizes, tables) if self.config.verifier else tables

    def answer_tables(self, case: Case, dimensions: Sequence[Dimension]) -> list[Table]:
        asked = [prompts.answer_table(case, dimension) for dimension in dimensions]
        sizes = [(len(dimension.values), len(case.options or ())) for dimension in dimensions]
        return self._grids(case, "answer tables", asked, sizes)

    def soft_map(self, case: Case, question: Question, answer: str) -> Row:
        size = len(question.choices)

        def read(value: Any) -> Row:
            return self._read_grid([{"value": 1, **cell} for cell in value["choices"]], 1, size)[0]

        prompt = prompts.soft_map(question, answer)
        return self._ask_one(case, "soft map", prompt, schemas.soft_map(size), read, LABEL_TOKENS * size)

    def final_answer(self, case: Case, state: Sequence[tuple[Dimension, str]], log: Log) -> str:
        prompt, options = prompts.final(case, state, log), case.options
        schema = schemas.final_text() if options is None else schemas.final_option(len(options))
        line = prompts.REASON_AND_ANSWER if options is None else prompts.REASON_AND_NUMBER

        def read(value: Any) -> str:
            return value["answer"] if options is None else options[value["option"] - 1]

        return self._ask_one(case, "final answer", prompts.with_line(prompt, line), schema, read, TEXT_TOKENS)

    # How labels become rows.

    def _judge(self, case: Case, what: str, asked: Sequence[Messages]) -> list[tuple[str, str]]:
        """Return (label, reason) for prompts that ask for one judgement each."""
        complete = [prompts.with_line(prompt, prompts.REASON_AND_LABEL) for prompt in asked]
        reads = [lambda value: (value["label"], value["reason"])] * len(asked)
        return self._ask(case, what, complete, schemas.judgement(), reads, LABEL_TOKENS)

    def _row(self, judged: Sequence[tuple[str, str]]) -> Row:
        labels, reasons = zip(*judged, strict=True)
        return Row(as_probabilities(labels, self.weights), labels, reasons)

    def _grids(
        self, case: Case, what: str, asked: Sequence[Messages], sizes: Sequence[tuple[int, int]]
    ) -> list[Table]:
        if not asked:
            return []
        reads = [lambda value, size=size: self._read_grid(value["cells"], *size) for size in sizes]
        num_cells = max(rows * columns for rows, columns in sizes)
        return self._ask(case, what, asked, schemas.grid(list(sizes)), reads, LABEL_TOKENS * num_cells)

    def _read_grid(self, cells: Sequence[Any], num_values: int, num_choices: int) -> Table:
        """Return a table of which each cell is given exactly once. Raises `Invalid` otherwise."""
        wanted = [(value, choice) for value in range(1, num_values + 1) for choice in range(1, num_choices + 1)]
        given = Counter((cell["value"], cell["choice"]) for cell in cells)
        for cell in [*wanted, *given]:
            if given[cell] != (cell in wanted):
                problem = ("is repeated" if given[cell] else "is missing") if cell in wanted else "does not exist"
                raise Invalid(f"the cell of value {cell[0]} and choice {cell[1]} {problem}")
        found = {(cell["value"], cell["choice"]): (cell["label"], cell["reason"]) for cell in cells}
        rows = (wanted[start : start + num_choices] for start in range(0, len(wanted), num_choices))
        return tuple(self._row([found[cell] for cell in row]) for row in rows)

    def _verified(
        self, case: Case, asked: Sequence[Messages], sizes: Sequence[tuple[int, int]], tables: list[Table]
    ) -> list[Table]:
        """Let the model check each table, and redo those that it finds fault with once, without another check."""
        answers = list(map(_as_json, tables))
        checks = [prompts.verify(*pair) for pair in zip(asked, answers, strict=True)]
        reads = [lambda value: value] * len(checks)
        verdicts = self._ask(case, "verdicts", checks, schemas.verdict(), reads, TEXT_TOKENS)
        wrong = [place for place, verdict in enumerate(verdicts) if not verdict["is_valid"]]
        self.counts.update(num_verified=len(tables), num_corrected=len(wrong))
        again = [prompts.redo(asked[place], answers[place], verdicts[place]["feedback"]) for place in wrong]
        redone = self._grids(case, "likelihood tables", again, [sizes[place] for place in wrong])
        corrected = dict(zip(wrong, redone, strict=True))
        return [corrected.get(place, table) for place, table in enumerate(tables)]

    # Duplicates.

    def _distinct(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the texts without blanks around them, each once; equal but for case and blanks is equal."""
        found: dict[str, str] = {}
        for text in texts:
            if text.strip():
                found.setdefault(plain(text), text.strip())
        self.counts["num_merged"] += len(texts) - len(found)
        return tuple(found.values())

    def _distinct_dimensions(self, items: Sequence[Any], known: Sequence[Dimension]) -> list[Dimension]:
        """Return the dimensions that have a new name and two different values. Raises `Invalid` if there is none."""
        seen = {plain(dimension.name) for dimension in known}
        found = []
        for item in items:
            values = self._distinct(item["values"])
            if plain(item["name"]) and plain(item["name"]) not in seen and len(values) > 1:
                seen.add(plain(item["name"]))
                found.append(Dimension(item["name"].strip(), values, item["reason"]))
        self.counts["num_merged"] += len(items) - len(found)
        if not found:
            raise Invalid("no fact has a new name and two different values")
        return found

    # Asking.

    def _ask_one(
        self, case: Case, what: str, prompt: Messages, schema: Schema, read: Callable[[Any], T], max_tokens: int
    ) -> T:
        return self._ask(case, what, [prompt], schema, [read], max_tokens)[0]

    def _ask(
        self,
        case: Case,
        what: str,
        asked: Sequence[Messages],
        schema: Schema,
        reads: Sequence[Callable[[Any], T]],
        max_tokens: int,
    ) -> list[T]:
        """Send prompts as one batch, and those whose replies cannot be read once more with what is wrong with them.

        Raises `NoValidReply` when `max_attempts` are spent.
        """
        found: dict[int, T] = {}
        current = dict(enumerate(asked))
        num_attempts = 0
        while current:
            sampling = replace(self.sampling, max_tokens=max_tokens, seed=self.sampling.seed + num_attempts)
            left = self.max_attempts - num_attempts
            replies = self.policy.reply(
                list(current.values()), schema, sampling, max_attempts=left, show_schema=self.show_schema
            )
            num_attempts += max(reply.num_attempts for reply in replies)
            again = {}
            for place, reply in zip(current, replies, strict=True):
                problem = reply.error
                if problem is None:
                    try:
                        found[place] = reads[place](reply.value)
                        continue
                    except Invalid as error:
                        problem = str(error)
                        self.policy.counters.add(num_invalid_replies=1)
                if reply.error is not None or num_attempts >= self.max_attempts:
                    raise NoValidReply(
                        f"case '{case.id}': no valid reply for its {what} in {self.max_attempts} attempts "
                        f"({_shortened(problem)}); use a stronger model, one that enforces schemas, or label_only"
                    )
                again[place] = prompts.redo(asked[place], json.dumps(reply.value, ensure_ascii=False), problem)
            current = again
        return [found[place] for place in range(len(asked))]


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-95:]}"


def _as_json(table: Table) -> str:
    """Return a table in the form in which it was given, for the verifier."""
    cells = [
        {"value": value, "choice": choice, "reason": reason, "label": label}
        for value, row in enumerate(table, 1)
        for choice, (label, reason) in enumerate(zip(row.labels, row.reasons, strict=True), 1)
    ]
    return json.dumps({"cells": cells}, ensure_ascii=False)
