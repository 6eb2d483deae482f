"""A policy plays the users: it reads their private text, the agent never does.

    environment = SimulatedUser(Speaker(policy), instances)
    environment.ask(case, user, question, free=True)

It has no memory: each question is answered from the text alone, as in the paper's code. In choice mode it picks one of
the question's choices.
"""

from __future__ import annotations

from collections.abc import Iterable

from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.parts import Case, Question, User
from sif_trainer.systems.balar.speaker import Speaker, chat, likeliest


class SimulatedUser:
    """The environment of cases whose users a model plays."""

    def __init__(self, speaker: Speaker, instances: Iterable[Instance]) -> None:
        self._speaker = speaker
        self._instances = {instance.case.id: instance for instance in instances}

    def ask(self, case: Case, user: User, question: Question, free: bool) -> str:
        instance = self._instances[case.id]
        system = f"{instance.role}\n\n{instance.secrets[user.name].reveal()}"
        if free:
            return self._speaker.write([chat(system, question.text)])[0]
        prompt = chat(system, f"{question.text}\nWhich of these is your answer?")
        row = self._speaker.pick([prompt], [question.choices])[0]
        return question.choices[likeliest(row)]
