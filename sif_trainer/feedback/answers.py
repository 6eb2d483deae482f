"""Votes by answer: which answer a group gives most often, counted by classes of equal answers.

Used by majority, soft_majority, srt, empo, scope and co_rewarding. Answers are compared by mathematical equivalence
before they come here; the published programs of TTRL count texts and stop when no response has an answer.

Shapes: P prompts, G responses per prompt.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, standardise
from sif_trainer.feedback.settings import FeedbackSettings

NO_ANSWER = -1


def usable_answers(groups: Groups) -> Tensor:
    """(P, G) int64: answer classes, -1 where there is no answer or the response is not usable."""
    return groups.given("answer").masked_fill(~groups.usable, NO_ANSWER)


def same_answer(answer: Tensor) -> Tensor:
    """(P, G, G) bool: whether responses i and j give the same answer; having none is no answer."""
    given = answer != NO_ANSWER
    return (answer.unsqueeze(-1) == answer.unsqueeze(-2)) & given.unsqueeze(-1) & given.unsqueeze(-2)


def answer_shares(answer: Tensor) -> Tensor:
    """(P, G) float64: the share of the group's responses that give this response's answer; 0 without an answer."""
    return same_answer(answer).sum(-1).double() / answer.size(-1)


def elect(answer: Tensor, weight: Tensor | None = None) -> Tensor:
    """(P,) int64: the class with the most votes (the largest total weight), of equals the first; -1 if none votes.

    `answer` and `weight` are (P, G); without a weight every response counts one.
    """
    weight = torch.ones_like(answer, dtype=torch.float64) if weight is None else weight.double()
    weight = weight.masked_fill(answer == NO_ANSWER, 0.0)
    votes = (same_answer(answer) * weight.unsqueeze(-2)).sum(-1).masked_fill(answer == NO_ANSWER, -torch.inf)
    best = votes.amax(-1, keepdim=True)
    first = (votes == best).int().argmax(-1, keepdim=True)
    return answer.gather(-1, first).squeeze(-1)


def reward_by_label(groups: Groups, label: Tensor, settings: FeedbackSettings) -> GroupOutcome:
    """Reward 1 where the answer is the label's, else 0; a group without a label is dropped.

    `label` is (P,) or (P, G). Only the first `num_trained` responses of a group are trained on, if it is set.
    """
    label = label.unsqueeze(-1) if label.dim() == 1 else label
    answer = usable_answers(groups)
    reward = ((answer == label) & (answer != NO_ANSWER)).double()
    outcome = standardise(reward, trained(groups, settings), settings.advantage_epsilon)
    return outcome.drop((label == NO_ANSWER).expand_as(answer))


def trained(groups: Groups, settings: FeedbackSettings) -> Tensor:
    """(P, G) bool: usable responses among the first `num_trained` of each group.

    Raises ValueError when `num_trained` does not divide G.
    """
    size = groups.usable.size(-1)
    count = settings.num_trained or size
    if size % count:
        raise ValueError(f"num_trained={count} does not divide the {size} responses of a group")
    return groups.usable & (torch.arange(size, device=groups.usable.device) < count)
