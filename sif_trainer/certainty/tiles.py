"""Log-probability, entropy and self-certainty from hidden states, a tile of logits at a time.

A tile is some tokens by some of the vocabulary. It gives the log-sum-exp and the entropy of its own part of the
distribution, and the parts merge exactly, as a mixture does, so no more than two fp32 tiles exist at any time. The
mean logit needs no tile where logits are linear in the hidden state: it is h . mean_rows(W) + mean(b).

    pytest tests/certainty/test_tiles.py
    python benchmarks/certainty.py
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sif_trainer.certainty.logits import LogitTransform

TILE_TOKENS = 1024
# 8 MB of fp32 stay in a CPU's cache between the passes over a tile; an accelerator wants fewer and larger kernels.
TILE_VOCABULARY_CPU, TILE_VOCABULARY = 2048, 16384


def score_tokens(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    transform: LogitTransform,
    confidence_top_k: int | None = None,
) -> tuple[Tensor, ...]:
    """Score each target under softmax(transform(hidden @ weight.T + bias)).

    hidden (N, H), weight (V, H), bias (V,) or None, targets (N,) int64 -> log-probability, entropy, self-certainty,
    each (N,) fp32, in nats. The projection runs in the dtype of `hidden`, as the model's own does; all that follows is
    fp32. A row whose logits are not finite leaves the other rows alone. With `confidence_top_k` = k a fourth result is
    each token's confidence, the mean of -log p over its k most likely successors (SCOPE), larger when p is peaked.
    """
    num_tokens, vocab_size = len(hidden), len(weight)
    width = min(vocab_size, TILE_VOCABULARY_CPU if hidden.device.type == "cpu" else TILE_VOCABULARY)
    num_parts = math.ceil(vocab_size / width)
    tile, exponentials = hidden.new_empty((2, min(num_tokens, TILE_TOKENS) * width), dtype=torch.float32)
    part_log_z, part_entropy = hidden.new_empty((2, num_parts, num_tokens), dtype=torch.float32)
    target_logit, sum_logits = hidden.new_zeros((2, num_tokens), dtype=torch.float32)
    sum_rows = weight.new_zeros(weight.size(1), dtype=torch.float32)
    num_top = min(confidence_top_k or 0, vocab_size)
    top_logits = hidden.new_full((num_tokens, num_top), -torch.inf, dtype=torch.float32)

    for i in range(num_parts):
        vocabulary = slice(i * width, (i + 1) * width)
        part = weight[vocabulary].to(hidden.dtype)
        if transform.softcap is None:
            sum_rows += part.float().sum(0)
        for start in range(0, num_tokens, TILE_TOKENS):
            tokens = slice(start, start + TILE_TOKENS)
            rows = hidden[tokens]
            logits, exps = (x[: len(rows) * len(part)].view(len(rows), len(part)) for x in (tile, exponentials))
            projected = torch.mm(rows, part.T, out=logits if hidden.dtype == torch.float32 else None)
            if bias is not None:
                projected += bias[vocabulary].to(hidden.dtype)
            if projected is not logits:
                logits.copy_(projected)
            transform.apply_(logits)

            column = targets[tokens] - vocabulary.start
            here = (column >= 0) & (column < len(part))
            target_logit[tokens] += logits.gather(-1, (column * here).unsqueeze(-1)).squeeze(-1).masked_fill_(~here, 0)
            if transform.softcap is not None:
                sum_logits[tokens] += logits.sum(-1)
            if num_top:
                best = logits.topk(min(num_top, len(part)), dim=-1).values
                top_logits[tokens] = torch.cat([top_logits[tokens], best], dim=-1).topk(num_top, dim=-1).values
            top = logits.amax(-1)
            torch.exp(logits.sub_(top.unsqueeze(-1)), out=exps)
            total = exps.sum(-1)
            part_log_z[i, tokens] = top + total.log()
            part_entropy[i, tokens] = total.log() - exps.mul_(logits).sum(-1) / total

    log_z = part_log_z.logsumexp(0)
    log_share = part_log_z - log_z  # log of the probability that a part of the vocabulary holds
    entropy = (log_share.exp() * (part_entropy - log_share)).sum(0)
    if transform.softcap is None:
        # In slices: an fp32 copy of all hidden states could be larger than the tiles.
        sum_logits = torch.cat([rows.float() @ sum_rows for rows in hidden.split(TILE_TOKENS)])
        if bias is not None:
            sum_logits += bias.float().sum()
        sum_logits *= transform.scale / transform.temperature
    certainty = log_z - sum_logits / vocab_size - math.log(vocab_size)
    scores = (target_logit - log_z, entropy, certainty)
    return (*scores, log_z - top_logits.mean(-1)) if num_top else scores
