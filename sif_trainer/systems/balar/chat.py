"""You are the user: BALAR asks, you answer in the terminal, and see what it believes.

    sif balar chat balar/chat
    printf '1\\n/skip\\n/stop\\n' | sif balar chat balar/chat

Answers are recorded as they are given: called again with the same folder, a chat that was interrupted goes on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.balar.agents import load_agent, make_elicitor
from sif_trainer.systems.balar.loop import run_case
from sif_trainer.systems.balar.parts import Case, User
from sif_trainer.systems.balar.recipe import ModelRecipe
from sif_trainer.systems.balar.trace import Trace


@dataclass(frozen=True, kw_only=True)
class ChatRecipe(ModelRecipe):
    """A case that you know more about than the agent does."""

    task: str = field(metadata={"help": "What the agent is to find out."})
    context: str = field(default="", metadata={"help": "What it knows from the start."})
    options: tuple[str, ...] | None = field(
        default=None, metadata={"help": "The possible answers, if they are known."}
    )
    you: str = field(
        default="The person who has the question; honest, and no expert.", metadata={"help": "Who you are, to it."}
    )


def chat(run: RunFolder, recipe: ChatRecipe) -> None:
    """Talk with the person at standard input, and print the answer."""
    from rich.console import Console
    from rich.markup import escape

    from sif_trainer.systems.balar.environments.console import Person, help_text

    case = Case("chat", recipe.task, recipe.context, (User("you", recipe.you),), recipe.options)
    policy = load_agent(recipe, run.path / "calls.sqlite")
    console = Console()
    person = Person(_read, console)
    console.print(
        f"{escape(recipe.task)}\n[dim]{help_text(recipe.answer_mode == 'free')}[/dim]", highlight=False, soft_wrap=True
    )
    if run.finished:
        console.print("[dim]this chat has ended, and is only shown again; begin another with --run FOLDER[/dim]")
    trace = Trace(run.records("chat"))
    try:
        trajectory = run_case(case, make_elicitor(policy, recipe), person, recipe, trace, person.watch)
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is no text: {error}") from error
    person.show_options(case)
    answer, last = escape(trajectory.answer), trajectory.last
    ending = f"[dim]{last.num_asks} questions; ended: {trajectory.ended_by}[/dim]"
    console.print(f"\n[bold]Answer:[/bold] {answer}\n{ending}", highlight=False, soft_wrap=True)
    run.finish({"answer": trajectory.answer, "ended_by": trajectory.ended_by, "num_asks": last.num_asks})


def _read() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    if not sys.stdin.isatty():
        print(line, end="")  # as a terminal does, so that what is shown can be read
    return line.rstrip("\n")
