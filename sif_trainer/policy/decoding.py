"""The decoding loop of the transformers engine: left-padded batches whose finished rows make room for waiting ones.

`decode(model, rows, ...)` yields each row as it finishes. Two things differ from `model.generate`:

- Every row has its own stream of uniform numbers, and a token is drawn by inverting the cumulative distribution at the
  next one. So a sample depends on its own seed only, not on its place in a batch.
- A finished row leaves the batch, and its place is filled from the queue once half of the batch is free. A long
  completion therefore does not hold up the short ones.

It asks of the model what every attention decoder in transformers offers: a forward with a key-value cache.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.nn import functional as F
from transformers import DynamicCache

from sif_trainer.certainty.formula import self_certainty
from sif_trainer.policy.policy import Sampling
from sif_trainer.runs.errors import UserError

Batch: TypeAlias = tuple[torch.Tensor, DynamicCache, torch.Tensor]
"""Next-token logits (B, V), the key-value cache, and the left-padded mask (B, T) of what it holds."""

NOT_NUMBERS = "the model gave logits that are not numbers; check its weights, or try dtype=float32"


@dataclass(eq=False)
class Row:
    """One sample in the making."""

    place: int
    prompt_ids: Sequence[int]
    uniforms: list[float]
    """One number in [0, 1) for each token that may be drawn; their count is the row's token limit."""
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    certainties: list[float] = field(default_factory=list)
    finish_reason: str = ""


@torch.no_grad()
def decode(
    model: Any,
    rows: Sequence[Row],
    sampling: Sampling,
    batch_size: int,
    finish_reason: Callable[[Row], str],
) -> Iterator[Row]:
    """Decode rows to their end and yield each when `finish_reason(row)` is not empty. Deterministic in `rows`."""
    waiting = deque(rows)
    active: list[Row] = []
    logits, cache, mask = torch.empty(0), DynamicCache(), torch.empty(0)  # replaced by the first rows that enter
    while waiting or active:
        if waiting and len(active) <= batch_size // 2:
            entering = [waiting.popleft() for _ in range(min(len(waiting), batch_size - len(active)))]
            entered = prefill(model, [row.prompt_ids for row in entering])
            logits, cache, mask = _join((logits, cache, mask), entered) if active else entered
            active += entering
        uniforms = logits.new_tensor([row.uniforms[len(row.tokens)] for row in active], dtype=torch.float32)
        tokens, log_probs, certainties = draw(logits, uniforms, sampling)
        staying = []
        for number, (row, token, log_prob, certainty) in enumerate(
            zip(active, tokens.tolist(), log_probs.tolist(), certainties.tolist(), strict=True)
        ):
            if math.isnan(log_prob):
                raise UserError(NOT_NUMBERS)
            row.tokens.append(token)
            row.log_probs.append(log_prob)
            row.certainties.append(certainty)
            row.finish_reason = finish_reason(row)
            if row.finish_reason:
                yield row
            else:
                staying.append(number)
        if len(staying) < len(active):
            active = [active[number] for number in staying]
            if not active:
                continue
            rest = torch.tensor(staying, device=mask.device)
            tokens = tokens[rest]
            mask = _select(cache, mask, rest)
        mask = F.pad(mask, (0, 1), value=1)
        logits = read(model, tokens[:, None], mask, cache)[:, -1]


def prefill(model: Any, prompts: Sequence[Sequence[int]]) -> Batch:
    """Run prompts through the model and keep their keys and values."""
    ids, mask, places = pad_left(model, prompts)
    cache = DynamicCache()
    logits = read(model, ids, mask, cache, logits_to_keep=1)[:, -1]
    if len(ids) < len(prompts):
        cache.batch_select_indices(places)
    return logits[places], cache, mask[places]


def pad_left(model: Any, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids and mask of the different prompts (U, T), and the row in them of each prompt (B)."""
    unique = list(dict.fromkeys(map(tuple, prompts)))
    width = max(map(len, unique))
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in unique], device=model.device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in unique], device=model.device)
    numbers = {prompt: number for number, prompt in enumerate(unique)}
    return ids, mask, torch.tensor([numbers[tuple(prompt)] for prompt in prompts], device=model.device)


def read(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, cache: DynamicCache | None, logits_to_keep: int = 0
) -> torch.Tensor:
    """Run ids (B, S) through the model after what `cache` holds, extend it, and return logits (B, S or fewer, V).

    `mask` (B, T) covers the cache and the ids; positions count its ones, so that padding takes none.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    # transformers 5.24 renamed the argument; the branch goes when that is our oldest version.
    cache_name = "cache" if "cache" in inspect.signature(inner.forward).parameters else "past_key_values"
    positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.size(1) :]
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        use_cache=cache is not None,
        logits_to_keep=logits_to_keep,
        **{cache_name: cache},
    )
    logits: torch.Tensor = output.logits
    return logits


def draw(
    logits: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """From logits (B, V): tokens (B), their log-probabilities (B) and, if asked for, self-certainties (B, else 0).

    Both measures are of softmax(logits / temperature) in fp32, before top-k and top-p. A token is the first whose
    cumulative probability exceeds its uniform number; at temperature 0 it is the most likely one.
    """
    logits = logits.float() / (sampling.temperature or 1.0)
    log_p = logits.log_softmax(-1)
    if sampling.temperature == 0:
        tokens = log_p.argmax(-1)
    else:
        cumulative = _restrict(log_p.exp(), sampling).cumsum(-1)
        total = cumulative[:, -1]
        # Below the total even after rounding, so that a token of probability 0 is never drawn.
        thresholds = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
        tokens = torch.searchsorted(cumulative, thresholds[:, None], right=True)[:, 0].clamp(max=log_p.size(-1) - 1)
    certainties = self_certainty(logits) if sampling.measures_certainty else torch.zeros_like(uniforms)
    return tokens, log_p.gather(-1, tokens[:, None])[:, 0], certainties


def _restrict(p: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Set to zero what top-k, then top-p, leave out; the vocabulary's order is kept."""
    if not sampling.top_k and sampling.top_p == 1:
        return p
    ranked, order = p.sort(dim=-1, descending=True, stable=True)
    if sampling.top_k:
        ranked[:, sampling.top_k :] = 0
    if sampling.top_p < 1:
        before = ranked.cumsum(-1) - ranked
        ranked = ranked.masked_fill(before >= sampling.top_p * ranked.sum(-1, keepdim=True), 0)
    return torch.zeros_like(p).scatter(-1, order, ranked)


def _select(cache: DynamicCache, mask: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Keep the given rows of the cache, drop columns that are now padding everywhere, and return their mask."""
    mask = mask[rows]
    start = int(mask.any(0).int().argmax())
    for layer in cache.layers:
        layer.keys = layer.keys[rows, :, start:]
        layer.values = layer.values[rows, :, start:]
    return mask[:, start:]


def _join(old: Batch, new: Batch) -> Batch:
    """Stack two batches, padding the narrower one on the left."""
    width = max(old[2].size(1), new[2].size(1))

    def stack(*parts: torch.Tensor) -> torch.Tensor:
        return torch.cat([F.pad(part, (0, 0, width - part.size(-2), 0)) for part in parts])

    for layer, new_layer in zip(old[1].layers, new[1].layers, strict=True):
        layer.keys = stack(layer.keys, new_layer.keys)
        layer.values = stack(layer.values, new_layer.values)
    masks = stack(old[2][..., None], new[2][..., None])[..., 0]
    return torch.cat([old[0], new[0]]), old[1], masks
