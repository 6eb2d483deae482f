"""One case's conversation, as the baselines lead it: ask, write, pick, and answer, each step recorded in the trace.

    dialogue = Dialogue(case, speaker, environment, config, Trace(), Settings())
    while dialogue.goes_on:
        dialogue.ask(dialogue.pick_user(), dialogue.write("Write the next question."))
    dialogue.answer()

Prompts are made of the case and the log alone, neither of which holds a private text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.parts import Case, Correct, Environment, Exchange, Log, Question, Stop, User
from sif_trainer.systems.balar.prompts import Messages
from sif_trainer.systems.balar.speaker import Speaker, chat, likeliest
from sif_trainer.systems.balar.trace import Trace, read_reply

SYSTEM = "You solve a case. You may question people first. Rely on what you are shown and on common sense."
ASK = "Write one short question to {user} that would help most now, and that was not asked before. Only the question."
CHOICES = ("yes", "no", "not known")


@dataclass(frozen=True)
class Settings:
    """What some strategies need besides the budget."""

    num_candidates: int = 3
    """Questions that are weighed against one another in a turn."""
    depth: int = 3
    """Questions that Uncertainty of Thoughts looks ahead."""
    thresholds: tuple[float, ...] = ()
    """Of conformal pursuit, after 0, 1, ... questions: the lowest probability that stays in the set."""


class Dialogue:
    """A conversation within the budget of `config.max_asks` questions."""

    def __init__(
        self,
        case: Case,
        speaker: Speaker,
        environment: Environment,
        config: BalarConfig,
        trace: Trace,
        settings: Settings,
    ) -> None:
        self.case = case
        self.settings = settings
        self.scores = speaker.by == "score"
        self.log: list[Exchange] = []
        self._told_after = [0]
        self._speaker, self._environment, self._config, self._trace = speaker, environment, config, trace
        self._stopped = False

    @property
    def num_asks(self) -> int:
        return len(self._told_after) - 1

    def log_after(self, num_asks: int) -> Log:
        """Return what was said in the first so many questions."""
        return self.log[: self._told_after[num_asks]]

    @property
    def goes_on(self) -> bool:
        """Whether another question may be put."""
        return not self._stopped and self.num_asks < self._config.max_asks

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from, where users pick one."""
        return CHOICES[: self._config.max_choices]

    def ask(self, user: User, text: str) -> None:
        """Put a question; what is not answered is not in the log, but counts."""
        question = Question(text, self.choices)
        free = self._config.answer_mode == "free"
        reply = self._trace.step("reply", lambda: self._environment.ask(self.case, user, question, free), read_reply)
        if isinstance(reply, Stop | Correct):
            self._stopped = True
            return
        if isinstance(reply, str) and reply.strip():
            self.log.append(Exchange(question, user, reply))
        self._told_after.append(len(self.log))

    def pick_user(self) -> User:
        """Return whom to ask next; no call where there is only one."""
        users = self.case.users
        if len(users) == 1:
            return users[0]
        return users[self.pick("Who should be asked next?", [user.name for user in users])]

    def write(self, instruction: str, log: Log | None = None) -> str:
        return self.write_all([instruction], log)[0]

    def write_all(self, instructions: Sequence[str], log: Log | None = None) -> list[str]:
        """Return a text for each instruction, in one batch; the same instruction twice gives the same text."""
        asked = [self.prompt(instruction, log) for instruction in instructions]
        return self._trace.step("write", lambda: self._speaker.write(asked), list)

    def pick(self, instruction: str, options: Sequence[str]) -> int:
        """Return the place of the likeliest option."""
        return likeliest(self.weigh([instruction], options)[0])

    def weigh(
        self, instructions: Sequence[str], options: Sequence[str], logs: Sequence[Log] | None = None
    ) -> list[list[float]]:
        """Return for each instruction the options' probabilities, in one batch; `logs` replace what was said."""
        told = logs or [self.log] * len(instructions)
        asked = [self.prompt(instruction, log) for instruction, log in zip(instructions, told, strict=True)]
        return self._trace.step("pick", lambda: self._speaker.pick(asked, [options] * len(asked)), list)

    def candidates(self, user: User) -> list[str]:
        """Return different questions to weigh, `settings.num_candidates` at most."""
        found: list[str] = []
        for _ in range(self.settings.num_candidates):
            others = f" It must differ from: {' | '.join(found)}" if found else ""
            text = self.write(ASK.format(user=user.name) + others)
            if text not in found:
                found.append(text)
        return found

    def answer(self, log: Log | None = None, step: str = "final_answer") -> str:
        """Return the answer that follows from the log: one of the options if the case has some."""
        told = self.log if log is None else log
        options = self.case.options
        if options is None:
            prompt = self.prompt("What is the answer to the task? Be complete and brief.", told)
            return self._trace.step(step, lambda: self._speaker.write([prompt])[0], str)
        prompt = self.prompt("Which option is the right answer to the task?", told)
        place = self._trace.step(step, lambda: likeliest(self._speaker.pick([prompt], [options])[0]), int)
        return options[place]

    def prompt(self, instruction: str, log: Log | None = None) -> Messages:
        """Return the chat: the case, who can be asked, what was said, and the instruction."""
        case = self.case
        lines = [f"Task: {case.task}", f"Context: {case.context}"]
        if case.options is not None:
            lines.append(f"Options: {'; '.join(case.options)}")
        lines += ["People:", *(f"- {user.name}: {user.public}" for user in case.users)]
        told = self.log if log is None else log
        if told:
            lines += ["Said so far:", *(f"- {turn.user.name}, {turn.question.text} {turn.answer}" for turn in told)]
        return chat(SYSTEM, "\n".join([*lines, "", instruction]))
