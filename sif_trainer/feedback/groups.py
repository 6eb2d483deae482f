"""What a rule may see of a batch: numbers per response, arranged by prompt; no logits, no texts, no reference answers.

Shapes: P prompts, G responses per prompt, K windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """Statistics of P groups of G responses. Fields that are None were not asked for by the rule (`Rule.reads`).

    Attributes:
        profile: (P, G, K) float64, the ranked profile; NaN where the response is shorter than a window.
        length: (P, G), valid tokens.
        certainty_mean: (P, G) float64, mean self-certainty over the valid tokens.
        certainty_variance: (P, G) float64, its variance over the valid tokens (divided by their number).
        usable: (P, G) bool, see `usable_responses`.
        seed: for rules that draw; the same on every process, another one in every step.
        certainty_band: (P, G) float64, mean of the sorted certainties between two quantiles.
        entropy_mean: (P, G) float64, mean entropy of the token distributions, nats.
        log_prob_mean: (P, G) float64, mean log-probability of the tokens.
        step_confidence: (P, G) float64, mean over reasoning steps of the tokens' top-k confidence.
        gradient_norm: (P, G) float64, norm of the gradient of the response's mean negative log-likelihood.
        answer: (P, G) int64, class of equal answers within a group; -1 without an answer. For a rule that reads
            `paired`, classes hold within a pair of groups; for one that reads `teacher_answer`, in both alike.
        teacher_answer: (P, G) int64, classes of the answers that the slowly moving teacher gave.
        paired: groups 2p and 2p + 1 are a question and its rephrasing.
        verdict: (P, G) float64, a verifier's 0 or 1, NaN where it has none. Only ground-truth training reads it.
    """

    profile: Tensor
    length: Tensor
    certainty_mean: Tensor
    certainty_variance: Tensor
    usable: Tensor
    seed: int = 0
    certainty_band: Tensor | None = None
    entropy_mean: Tensor | None = None
    log_prob_mean: Tensor | None = None
    step_confidence: Tensor | None = None
    gradient_norm: Tensor | None = None
    answer: Tensor | None = None
    teacher_answer: Tensor | None = None
    paired: bool = False
    verdict: Tensor | None = None

    def given(self, name: str) -> Tensor:
        """The optional field `name`. Raises ValueError when it was not computed: a rule must list what it reads."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"Groups.{name} was not computed; a rule that reads it must name it in Rule.reads")
        tensor: Tensor = value
        return tensor


def usable_responses(finite: Tensor, length: Tensor, truncated: Tensor | None = None) -> Tensor:
    """Which responses any rule may reward: finite logits, at least one valid token, not truncated where that is given.

    Tensors of one shape; bool. Means over no tokens are 0, which would be the best of rewards under some rules.
    """
    usable = finite & (length >= 1)
    return usable if truncated is None else usable & ~truncated
