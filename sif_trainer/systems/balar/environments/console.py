"""A person answers in the terminal, and sees the belief change as bars. Works over a pipe as well.

    person = Person(input, Console())
    run_case(case, elicitor, person, config, trace, watch=person.watch)

Every line is an answer, the number of a choice, or a command: `/skip`, `/correct 2 yes`, `/stop`. The end of the input
is a stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sif_trainer.systems.balar.parts import (
    Case,
    Correct,
    Exchange,
    Question,
    Skip,
    Stop,
    User,
    UserReply,
    plain,
)
from sif_trainer.systems.balar.state import Snapshot

WIDTH = 30


def help_text(free: bool) -> str:
    """Return what a person may type."""
    how = "in your words or with a number" if free else "with the number of a choice"
    return f"answer {how}; /skip, /correct NUMBER ANSWER, /stop, /help"


class Person:
    """The environment of a chat: `read` returns a line, without its end, or raises EOFError."""

    def __init__(self, read: Callable[[], str], console: Console) -> None:
        self._read, self._console = read, console
        self._log: Sequence[Exchange] = ()
        self._last: Snapshot | None = None

    def ask(self, case: Case, user: User, question: Question, free: bool) -> UserReply:
        self._print(f"\n[bold]{escape(question.text)}[/bold]")
        for number, choice in enumerate(question.choices, 1):
            self._print(f"  {number}. {escape(choice)}")
        while True:
            self._console.print("> ", end="")
            try:
                line = self._read().strip()
            except EOFError:
                self._print("")
                return Stop()
            reply = self._understand(line, question, free)
            if not isinstance(reply, _Problem):
                return reply
            self._print(f"[yellow]{escape(reply)}[/yellow]")

    def _understand(self, line: str, question: Question, free: bool) -> UserReply | _Problem:
        command, _, rest = line.partition(" ")
        match command:
            case "/skip":
                return Skip()
            case "/stop":
                return Stop()
            case "/correct":
                return self._correction(rest, free)
            case "/help" | "":
                return _Problem(help_text(free))
        if command.startswith("/"):
            return _Problem(f"no command {command}; {help_text(free)}")
        return _answer(line, question, free)

    def _correction(self, rest: str, free: bool) -> UserReply | _Problem:
        number, _, answer = rest.strip().partition(" ")
        if not number.isdecimal() or not answer.strip():
            return _Problem("write the answer's number and what it should be: /correct 2 yes")
        places = {str(place): place for place in range(1, len(self._log) + 1)}
        if number not in places:
            return _Problem(f"there is no answer {number}; {len(self._log)} were given")
        place = places[number] - 1
        corrected = _answer(answer.strip(), self._log[place].question, free)
        return corrected if isinstance(corrected, _Problem) else Correct(place, corrected)

    def watch(self, snapshot: Snapshot) -> None:
        """Show what was said and what is believed, if that has changed."""
        self._log = snapshot.log
        if self._last is not None and snapshot.marginals == self._last.marginals and snapshot.log == self._last.log:
            return
        self._last = snapshot
        for number, turn in enumerate(snapshot.log, 1):
            self._print(f"[dim]{number}. {escape(turn.question.text)} {escape(turn.answer)}[/dim]")
        table = Table.grid(padding=(0, 1))
        for dimension, row in zip(snapshot.dimensions, snapshot.marginals, strict=True):
            _add_rows(table, dimension.name, dimension.values, row)
        self._console.print(table)

    def show_options(self, case: Case) -> None:
        """Show what is believed of the options, at the end."""
        if self._last is not None and self._last.option_probabilities is not None:
            table = Table.grid(padding=(0, 1))
            _add_rows(table, "answer", case.options or (), self._last.option_probabilities)
            self._console.print(table)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class _Problem(str):
    """What is wrong with a line, for the person to read."""


def _answer(line: str, question: Question, free: bool) -> str | _Problem:
    """Return the choice that a number or its text names; any other text only where answers are free."""
    for number, choice in enumerate(question.choices, 1):
        if line == str(number):
            return choice
    for choice in question.choices:
        if plain(line) == plain(choice):
            return choice
    numbers = f"1 to {len(question.choices)}"
    return line if free else _Problem(f"'{line:.60}' is none of the choices; type its number, {numbers}")


def _add_rows(table: Table, title: str, texts: Sequence[str], row: Sequence[float]) -> None:
    table.add_row(f"[bold]{escape(title)}[/bold]")
    for text, probability in zip(texts, row, strict=True):
        bar = Bar(1.0, 0.0, probability, width=WIDTH, color="cyan")
        table.add_row(f"  {escape(text)}", bar, f"{probability:4.0%}")
