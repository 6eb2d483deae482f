"""What votes come to: rates, and, where responses are marked right or wrong, what is pushed up against what is down.

Shapes: P groups, G responses per group, K windows. `correct` is (P, G) float64: 1 right, 0 wrong, NaN not known.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sif_trainer.evaluation.estimate import Estimate
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.probe.intervals import Share, difference, rate


def vote_numbers(outcome: GroupOutcome) -> dict[str, float | None]:
    """Return the rates of a vote, under the names that training logs them by (docs/metrics.md).

    A winner is a kept response that is pushed up: whose advantage is positive.
    """
    keep = outcome.keep
    margin = outcome.margin[~outcome.margin.isnan()]
    return {
        "eligible_rate": outcome.eligible.double().mean().item(),
        "keep_rate": keep.double().mean().item(),
        "group_keep_rate": keep.any(-1).double().mean().item(),
        "winners_per_group": winners(outcome).sum(-1).double().mean().item(),
        "window_margin": margin.mean().item() if margin.numel() else None,
    }


def winners(outcome: GroupOutcome) -> Tensor:
    """(P, G) bool: kept responses that the update makes more likely."""
    return outcome.keep & (outcome.advantage > 0)


def accuracy_numbers(outcome: GroupOutcome, correct: Tensor) -> dict[str, Estimate | None]:
    """Return accuracies of a vote with intervals over groups; None where there is nothing to count.

    `all`, `kept`, `winners`: share of right responses (paper: Table 4), and `kept_minus_all` where not all are kept.
    `lift`: in groups that can tell (`telling`), accuracy of what is pushed up minus accuracy of what is pushed down,
    each response weighted by its advantage. Both sides of a group weigh the same, so that an easy prompt with many
    winners moves nothing: 0 for a rule that knows nothing, 1 for one that knows the answers.
    """
    known = ~correct.isnan()
    weight = outcome.advantage * (outcome.keep & known & telling(outcome, correct).unsqueeze(-1))
    every, kept = _share(known.double(), correct), _share((outcome.keep & known).double(), correct)
    won = _share((winners(outcome) & known).double(), correct)
    up, down = _share(weight.clamp(min=0), correct), _share(-weight.clamp(max=0), correct)
    return {
        "all": rate(every),
        "kept": rate(kept),
        "winners": rate(won),
        "kept_minus_all": None if outcome.keep.all() else difference(kept, every),
        "lift": difference(up, down),
    }


def telling(outcome: GroupOutcome, correct: Tensor) -> Tensor:
    """(P,) bool: groups in which the update prefers some responses to others, and some are right and some wrong."""
    return mixed(correct, outcome.keep & (outcome.advantage != 0))


def mixed(correct: Tensor, mask: Tensor) -> Tensor:
    """(P,) bool: groups with both right and wrong responses among those of the mask, (P, G)."""
    return (mask & (correct == 1)).any(-1) & (mask & (correct == 0)).any(-1)


def _share(weight: Tensor, correct: Tensor) -> Share:
    """Weighted right responses of each group, of the weight of all; (P, G) each, weight 0 where not known."""
    parts = (weight * correct.nan_to_num(0.0)).sum(-1)
    return Share(parts.numpy(), weight.sum(-1).numpy(), num_draws=float((weight > 0).sum()))


def within_group_auc(score: Tensor, correct: Tensor, usable: Tensor) -> Estimate | None:
    """Return the chance that a right response scores higher than a wrong one of the same group, ties counting half.

    Pairs of all groups count alike; 0.5 is chance. None without a group that has both. The draws behind a group's
    pairs are those of a fair coin as variable as the rank statistic without information (Mann and Whitney 1947). All
    arguments are (P, G).
    """
    right, wrong = usable & (correct == 1), usable & (correct == 0)
    pair = right.unsqueeze(-1) & wrong.unsqueeze(-2)
    mine, others = score.unsqueeze(-1), score.unsqueeze(-2)
    ahead = (mine > others).double() + 0.5 * (mine == others).double()
    num_right, num_wrong = right.sum(-1).double(), wrong.sum(-1).double()
    draws = 3 * num_right * num_wrong / (num_right + num_wrong + 1)
    parts, wholes = (ahead * pair).sum((1, 2)), pair.sum((1, 2)).double()
    return rate(Share(parts.numpy(), wholes.numpy(), float(draws.sum())))


def response_numbers(columns: dict[str, Tensor]) -> dict[str, Any]:
    """Return what the responses are like: lengths by quantile, truncation, certainty; (P, G) columns of records."""
    lengths = columns["length"].flatten()
    finite = columns["finite"].bool().flatten()
    quantiles = torch.quantile(lengths, torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)).tolist()
    return {
        "length_quantiles": dict(zip(("10", "50", "90"), quantiles, strict=True)),
        "truncated_rate": columns["truncated"].mean().item(),
        "num_nonfinite": int((~finite).sum()),
        **{
            name: columns[name].flatten()[finite].mean().item()
            for name in ("certainty_mean", "certainty_variance", "entropy_mean")
        },
    }
