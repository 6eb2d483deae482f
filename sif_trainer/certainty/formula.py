"""The definitions, on full logits: self-certainty, log-probability and entropy of every position.

They hold batch x length x vocabulary, so nothing in training calls them: they are what `head` is tested and probed
against.

    pytest tests/certainty/test_formula.py

Self-certainty is KL(U || p), the divergence of the *uniform* distribution from the policy's; the paper's words leave
open whether its reported values subtract log V. Ours do, so that a uniform distribution has certainty 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def self_certainty(logits: Tensor) -> Tensor:
    """KL(U || p) = logsumexp(l) - mean(l) - log V per position, in nats (section 1.1).

    (..., V) -> (...), in fp32 or better: bf16 reductions make false ties.
    """
    logits = _at_least_fp32(logits)
    return logits.logsumexp(-1) - logits.mean(-1) - math.log(logits.size(-1))


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """log p(token) per position: (..., V) and (...) int64 -> (...), in nats, in fp32 or better."""
    return _at_least_fp32(logits).log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """-sum_v p log p per position: (..., V) -> (...), in nats, in fp32 or better."""
    log_probs = _at_least_fp32(logits).log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)


def _at_least_fp32(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
