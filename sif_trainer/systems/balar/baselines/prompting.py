"""Baselines that prompt and look no further than the next question.

`direct` asks nothing. `reactive` decides before each turn whether to answer, then whom to ask what. `proactive` writes
down what is still unclear first (Proactive Chain of Thought). `tree_of_thoughts` weighs several questions by its own
judgement: neither stories nor key questions are read, and only the chosen one is put to a user. The benchmark's own
evaluator lets a referee with the stories weigh them.
"""

from __future__ import annotations

from sif_trainer.systems.balar.baselines.dialogue import ASK, Dialogue

READY = "Is enough known to answer the task now, or should another question come first?"
UNCLEAR = "In two sentences: what is known by now, what is still unclear, and what should be found out next?"
PROMISE = "How much would this question to {user} help to solve the task? The question: {question}"


def direct(dialogue: Dialogue) -> None:
    """Answer without a question."""


def reactive(dialogue: Dialogue) -> None:
    """Ask until ready."""
    while dialogue.goes_on and dialogue.pick(READY, ("ask another question", "answer now")) == 0:
        user = dialogue.pick_user()
        dialogue.ask(user, dialogue.write(ASK.format(user=user.name)))


def proactive(dialogue: Dialogue) -> None:
    """Think about what is unclear before each decision."""
    while dialogue.goes_on:
        thought = f"Your notes: {dialogue.write(UNCLEAR)}\n"
        if dialogue.pick(thought + READY, ("ask another question", "answer now")) == 1:
            return
        user = dialogue.pick_user()
        dialogue.ask(user, dialogue.write(thought + ASK.format(user=user.name)))


def tree_of_thoughts(dialogue: Dialogue) -> None:
    """Put the most promising of several questions until ready."""
    while dialogue.goes_on and dialogue.pick(READY, ("ask another question", "answer now")) == 0:
        user = dialogue.pick_user()
        found = dialogue.candidates(user)
        rows = dialogue.weigh(
            [PROMISE.format(user=user.name, question=text) for text in found], ("much", "a little", "not at all")
        )
        promises = [much + a_little / 2 for much, a_little, _ in rows]
        dialogue.ask(user, found[promises.index(max(promises))])
