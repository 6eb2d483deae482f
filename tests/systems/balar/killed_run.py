"""Run one case as a whole, then killed by SIGKILL after every single call and started again until it ends.

`python killed_run.py FOLDER` fills FOLDER/whole and FOLDER/killed, and prints the number of starts.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

from sif_trainer.policy import CachedPolicy
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.records import Records
from sif_trainer.systems.balar import BalarConfig, Case, Trace, User, run_case
from sif_trainer.systems.balar.elicitation import PolicyElicitor

spec = importlib.util.spec_from_file_location("scripted_agent", Path(__file__).with_name("scripted_agent.py"))
scripted = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scripted)


class Calls:
    """Writes down each call that is answered; dies at the start of the one after."""

    def __init__(self, folder, dies):
        self.path, self.dies, self.num = folder / "calls.txt", dies, 0

    def note(self, name):
        if self.dies and self.num:
            os.kill(os.getpid(), signal.SIGKILL)
        self.num += 1
        with self.path.open("a") as file:
            file.write(f"{name}\n")


def run(folder, dies):
    calls, agent = Calls(folder, dies), scripted.ScriptedAgent(num_questions=1)
    agent.overrides["verdict"] = lambda text, number: {"feedback": "no", "is_valid": scripted.digest(text) % 3 > 0}

    def reply(text, number):
        calls.note(f"agent {scripted.digest(text, number)}")
        if scripted.digest(text) % 5 == 0 and number == 0:
            return "not JSON"
        return agent(text, number)

    class Environment:
        def ask(self, case, user, question, free):
            calls.note(f"user {user.name} {question.text}")
            return question.choices[0]

    policy = CachedPolicy(ScriptedPolicy(reply, identity="agent"), folder / "calls.sqlite")
    config = BalarConfig(alpha=0.05, num_questions=1, max_asks=3, max_rounds=9, max_states=30, verifier=True)
    users = (User("Ada", "a gardener"), User("Ben", "a cook"))
    case = Case("c-1", "Who took the spoon?", "A spoon is gone.", users, ("Ada", "Ben", "the cat"))
    trace = Trace(Records(folder / "trace.jsonl"))
    ended = run_case(case, PolicyElicitor(policy, config), Environment(), config, trace)
    (folder / "ended.txt").write_text(f"{ended.ended_by} {ended.answer} {ended.last.num_expansions}")


def main():
    folder = Path(sys.argv[1])
    for name in ("whole", "killed"):
        (folder / name).mkdir()
    run(folder / "whole", dies=False)  # first, so that the children inherit what is imported and compiled by it
    num_starts, killed = 0, True
    while killed:
        num_starts += 1
        child = os.fork()
        if not child:
            run(folder / "killed", dies=True)
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(num_starts)


if __name__ == "__main__":
    main()
