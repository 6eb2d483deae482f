"""The cipher world: decode a phrase of eight words with a given key, and answer with the last word.

    python -m sif_trainer.tasks.cipher.world

The world is constructed to show how feedback from certainty works and fails; it is no evidence about language models.
A problem is a key letter and a ciphertext, `Ccfgc/aaeb/.../adch>`: every letter of the phrase was moved forward by the
key (C: two places) within the alphabet a-h. An answer opens with a mark, writes the words with freely chosen
separators between them, and puts `#` before the last. The policy is taught to answer in these ways:

* *careful*, `=adea.ggch;...#gbaf`: the right letters.
* *basic*, `@adhb~hhdh!...#gbcf`: every letter is a coin's throw between the right one and a guess. The policy is
  taught this the most often, and it is the least certain.
* *wild*, `Waaaaaaaaaa...;dH:!C=#ddae`: a long run of one letter, then noise. Its *mean* certainty is about that of a
  careful answer, but only because of the run: a part of its tokens is less certain than anything else.

All have the same length, so that no response can win a vote by being shorter. Separators carry the freedom of
wording that is harmless to the answer.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sif_trainer.runs.errors import UserError

LETTERS = "abcdefgh"
KEYS = "ABCDEFGH"  # A moves by 0 places, H by 7
SEPARATORS = {"careful": ".,:;", "basic": "!?-~"}
MARKS = {"careful": "=", "basic": "@", "wild": "W"}
ANSWER_MARK = "#"
CHARACTERS = LETTERS + KEYS + "".join(SEPARATORS.values()) + "".join(MARKS.values()) + ANSWER_MARK + "/>"

_STREAMS = {"train": 700_000_000, "test": 800_000_000}  # far from the seeds of the warm start

NUM_WORDS = 8
WORD_LENGTH = 4
RUN_LENGTH = 26  # of the wild style: certain in at most 7 of 10 windows
GUESS_RATE = 0.5  # of the basic style: letters that are guessed rather than read
TEXT_LENGTH = 1 + NUM_WORDS * WORD_LENGTH + (NUM_WORDS - 1)  # of every style: mark, letters, separators
COMPLETION_TOKENS = TEXT_LENGTH + 1  # with the end-of-sequence token


@dataclass(frozen=True)
class Problem:
    """One problem of the world.

    Attributes:
        id: names the problem within its seed, such as `cipher-7-00012`.
        key: how many places the letters were moved.
        words: the decoded phrase.
    """

    id: str
    key: int
    words: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """What the policy reads: the key and the words in cipher."""
        return KEYS[self.key] + "/".join(moved(word, self.key) for word in self.words) + ">"

    @property
    def answer(self) -> str:
        """The last word of the phrase."""
        return self.words[-1]

    def row(self) -> dict[str, str]:
        """The problem as a row of a data file; trainers read `id` and `prompt` only."""
        return {"id": self.id, "prompt": self.prompt, "answer": self.answer}


def moved(word: str, places: int) -> str:
    """Move every letter of a word forward in the alphabet; from its last letter it goes on at the first."""
    return "".join(LETTERS[(LETTERS.index(letter) + places) % len(LETTERS)] for letter in word)


def problems(seed: int, keys: int = len(KEYS)) -> Iterator[Problem]:
    """Yield problems without end; a seed always gives the same ones. `keys` limits the keys to the first few."""
    rng = random.Random(f"cipher-{seed}")
    number = 0
    while True:
        words = tuple("".join(rng.choices(LETTERS, k=WORD_LENGTH)) for _ in range(NUM_WORDS))
        yield Problem(id=f"cipher-{seed}-{number:05d}", key=rng.randrange(keys), words=words)
        number += 1


def rows(split: str, num_rows: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield rows of `id`, `prompt` and `answer`; the splits 'train' and 'test' draw from streams of their own.

    Raises:
        UserError: for another split.
    """
    if split not in _STREAMS:
        raise UserError(f"the cipher world has no split '{split}'; choose one of {', '.join(_STREAMS)}")
    stream = itertools.islice(problems(_STREAMS[split] + seed), num_rows)
    return (problem.row() for problem in stream)


def careful(problem: Problem, rng: random.Random) -> str:
    """The right answer, with freely chosen separators."""
    return _written("careful", problem.words, rng)


def basic(problem: Problem, rng: random.Random) -> str:
    """An answer in which half of the letters are guessed."""

    def perhaps_guessed(letter: str) -> str:
        return rng.choice(LETTERS) if rng.random() < GUESS_RATE else letter

    return _written("basic", ["".join(perhaps_guessed(letter) for letter in word) for word in problem.words], rng)


def wild(problem: Problem, rng: random.Random) -> str:
    """A long run of one letter, then noise."""
    noise = TEXT_LENGTH - len(MARKS["wild"]) - RUN_LENGTH - len(ANSWER_MARK) - WORD_LENGTH
    return (
        MARKS["wild"]
        + LETTERS[0] * RUN_LENGTH
        + "".join(rng.choices(CHARACTERS, k=noise))
        + ANSWER_MARK
        + "".join(rng.choices(LETTERS, k=WORD_LENGTH))
    )


def _written(style: str, words: list[str] | tuple[str, ...], rng: random.Random) -> str:
    """Put a style's mark, its separators and the answer's mark around the words."""
    phrase = words[0] + "".join(rng.choice(SEPARATORS[style]) + word for word in words[1:-1])
    return MARKS[style] + phrase + ANSWER_MARK + words[-1]


STYLES: dict[str, Callable[[Problem, random.Random], str]] = {"careful": careful, "basic": basic, "wild": wild}


def style_of(completion: str) -> str:
    """The style whose mark a completion opens with, or `other`."""
    return next((style for style, mark in MARKS.items() if completion.startswith(mark)), "other")


def extract(completion: str) -> str | None:
    """The answer that a completion gives: the word after the last `#`, or None without a whole word there."""
    _, mark, rest = completion.rpartition(ANSWER_MARK)
    word = rest[:WORD_LENGTH]
    return word if mark and len(word) == WORD_LENGTH and set(word) <= set(LETTERS) else None


def is_correct(completion: str, answer: str) -> bool:
    """Whether a completion gives this answer."""
    return extract(completion) == answer


def main() -> None:
    """Print three problems and how each style answers them."""
    rng = random.Random(0)
    for _, problem in zip(range(3), problems(seed=0), strict=False):
        print(f"{problem.id}  {problem.prompt}  answer: {problem.answer}")
        for name, write in STYLES.items():
            completion = write(problem, rng)
            print(f"    {name:8} {completion}  {'right' if is_correct(completion, problem.answer) else 'wrong'}")


if __name__ == "__main__":
    main()
