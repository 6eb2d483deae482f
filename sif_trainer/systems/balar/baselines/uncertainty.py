"""Uncertainty of Thoughts: ask what is expected to split the possible answers best, looking some questions ahead.

The agent proposes questions and says of each possible answer whether yes would be the reply. A split with the share x
on one side is worth H2(x) / (1 + |2x - 1| / 0.4); what follows it is added, averaged over the next questions and
weighted by the sides' shares. After the real reply, answers that do not fit it are dropped. Without options the agent
writes possible answers itself, anew after each reply. All looking ahead is imagined: only the chosen question is put.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sif_trainer.systems.balar.baselines.dialogue import Dialogue
from sif_trainer.systems.balar.parts import User

LAMBDA = 0.4
NUM_GUESSES = 4
GUESS = "Write one possible answer to the task that fits what was said, in one sentence."
SPLIT = (
    "Write one short yes-or-no question to {user} that tells these possible answers apart, yes for one half and no "
    "for the other: {answers}. Only the question."
)
WOULD = "Suppose the right answer is: {answer}\n{user} is asked: {question}\nWould the reply be yes?"
FITS = "Suppose the right answer is: {answer}\nDoes what was said last fit that?"
YES_NO = ("yes", "no")


def uncertainty_of_thoughts(dialogue: Dialogue) -> str | None:
    """Ask until one possible answer is left, which is then the answer."""
    options = dialogue.case.options
    possible = list(options) if options is not None else _guesses(dialogue)
    while dialogue.goes_on and len(possible) > 1:
        user = dialogue.pick_user()
        worth = _worth_of(dialogue, user, possible, dialogue.settings.depth)
        num_told = len(dialogue.log)
        dialogue.ask(user, max(worth, key=worth.__getitem__))
        if options is None:
            possible = _guesses(dialogue)
        elif len(dialogue.log) > num_told:
            rows = dialogue.weigh([FITS.format(answer=answer) for answer in possible], YES_NO)
            left = [answer for answer, (yes, no) in zip(possible, rows, strict=True) if yes >= no]
            possible = left or possible
    return possible[0] if options is not None and len(possible) == 1 else None


def reward(share: float) -> float:
    """Return what a split is worth: its entropy in bits, less for uneven ones."""
    if share in (0, 1):
        return 0.0
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    return entropy / (1 + abs(2 * share - 1) / LAMBDA)


def _worth_of(dialogue: Dialogue, user: User, possible: Sequence[str], depth: int) -> dict[str, float]:
    """Return proposed questions and what each is worth, looking `depth` questions ahead."""
    worth: dict[str, float] = {}
    for _ in range(dialogue.settings.num_candidates):
        others = f" It must differ from: {' | '.join(worth)}" if worth else ""
        text = dialogue.write(SPLIT.format(user=user.name, answers="; ".join(possible)) + others)
        if text in worth:
            continue
        asked = [WOULD.format(answer=answer, user=user.name, question=text) for answer in possible]
        rows = dialogue.weigh(asked, YES_NO)
        says_yes = [yes >= no for yes, no in rows]
        worth[text] = reward(sum(says_yes) / len(possible))
        for side in (True, False):
            members = [answer for answer, said in zip(possible, says_yes, strict=True) if said is side]
            if depth > 1 and 1 < len(members) < len(possible):
                ahead = _worth_of(dialogue, user, members, depth - 1)
                worth[text] += len(members) / len(possible) * sum(ahead.values()) / len(ahead)
    return worth


def _guesses(dialogue: Dialogue) -> list[str]:
    found: list[str] = []
    for _ in range(NUM_GUESSES):
        others = f" It must differ from: {' | '.join(found)}" if found else ""
        text = dialogue.write(GUESS + others)
        if text not in found:
            found.append(text)
    return found
