"""What a rule may see of a batch: numbers per response, arranged by prompt; no logits, no texts, no answers.

Shapes: P prompts, G responses per prompt, K windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """Statistics of P groups of G responses.

    Attributes:
        profile: (P, G, K) float64, the ranked profile; NaN where the response is shorter than a window.
        length: (P, G), valid tokens.
        certainty_mean: (P, G) float64, mean self-certainty over the valid tokens.
        usable: (P, G) bool; False where a logit was not finite, or where the settings exclude truncated responses.
    """

    profile: Tensor
    length: Tensor
    certainty_mean: Tensor
    usable: Tensor
