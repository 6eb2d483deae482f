"""SCOPE: majority labels weighted by step confidence, drawn anew for each subgroup of a group.

Subgroups of g responses each elect a label from half of the whole group, drawn without replacement. One g is chosen
per step, on the Pareto front of agreement and diversity. The published program asks its engine for the sampled token's
log-probability only, and so weights by surprisal, the opposite of confidence; here confidence is what the paper says:
the mean of -log p over a token's k most likely successors, which grows as the distribution peaks.

Shapes: P prompts, G responses per prompt.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sif_trainer.feedback.answers import NO_ANSWER, elect, reward_by_label, usable_answers
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings


def scope(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Reward by 1[answer = the subgroup's label], with the step's best subgroup size (spec 4.4)."""
    answer, weight = usable_answers(groups), groups.given("step_confidence").nan_to_num(0.0)
    source = torch.Generator().manual_seed(groups.seed)
    sizes = [g for g in range(1, answer.size(1) + 1) if answer.size(1) % g == 0]
    agreement, diversity = [], []
    for size in sizes:
        labels = draw_labels(answer, weight, size, source)
        agreement.append((labels == answer).masked_fill(answer == NO_ANSWER, False).double().mean().item())
        diversity.append(_num_distinct(labels))
    best = sizes[choose_subgroup(agreement, diversity, settings.scope_quality_weight)]
    return reward_by_label(groups, draw_labels(answer, weight, best, source), settings)


def draw_labels(answer: Tensor, weight: Tensor, size: int, source: torch.Generator) -> Tensor:
    """(P, G) int64: each subgroup of `size` responses elects from a random half of the group, by weight."""
    num_groups, group_size = answer.shape
    labels = torch.empty_like(answer)
    for start in range(0, group_size, size):
        order = torch.rand(num_groups, group_size, generator=source, dtype=torch.float64).argsort(-1)
        voters = order[:, : max(group_size // 2, 1)].sort(-1).values.to(answer.device)
        label = elect(answer.gather(1, voters), weight.gather(1, voters))
        labels[:, start : start + size] = label.unsqueeze(1)
    return labels


def choose_subgroup(agreement: list[float], diversity: list[float], quality_weight: float) -> int:
    """Index of the candidate nearest to the ideal point (1, 1) among those that no other dominates.

    Both numbers are scaled to [0, 1] over the front first (1 where all are equal); of equals the first is chosen.
    """
    points = list(zip(agreement, diversity, strict=True))
    front = [i for i, p in enumerate(points) if not any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points)]
    scaled = [_scale([points[i][axis] for i in front]) for axis in (0, 1)]
    distances = [
        math.sqrt(quality_weight * (1 - r) ** 2 + (1 - quality_weight) * (1 - d) ** 2)
        for r, d in zip(*scaled, strict=True)
    ]
    return front[distances.index(min(distances))]


def _scale(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(v - low) / (high - low) if high > low else 1.0 for v in values]


def _num_distinct(labels: Tensor) -> float:
    """Mean number of distinct labels of a prompt; having none is no label."""
    return sum(len(set(row) - {NO_ANSWER}) for row in labels.tolist()) / len(labels)
