"""Log-probabilities of label continuations, with each prompt read once.

`score_labels(model, prompts, labels)` is `Policy.score` of the transformers engine, on token ids. Labels of one token
need the prompt's forward only. For longer ones the prompt's keys and values are repeated, once per label, and only
the labels' own tokens go through the model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from sif_trainer.policy.decoding import pad_left, prefill, read


@torch.no_grad()
def score_labels(model: Any, prompts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return fp32 log-probabilities (num_prompts, num_labels): the sum over each label's tokens, at temperature 1.

    Prompts may differ in length (they are padded on the left), labels as well (padded on the right).
    """
    first = torch.tensor([label[0] for label in labels], device=model.device)
    longer = [number for number, label in enumerate(labels) if len(label) > 1]
    if not longer:
        ids, mask, places = pad_left(model, prompts)
        logits = read(model, ids, mask, None, logits_to_keep=1)[:, -1]
        return logits.float().log_softmax(-1)[:, first][places]
    logits, cache, mask = prefill(model, prompts)
    scores = logits.float().log_softmax(-1)[:, first]

    length = max(map(len, labels)) - 1  # tokens that are read; the one after the last of them is only predicted
    padded = torch.tensor(
        [list(labels[number]) + [-1] * (length + 1 - len(labels[number])) for number in longer], device=mask.device
    ).repeat(len(prompts), 1)
    label_ids, predicted = padded[:, :-1].clamp(min=0), padded[:, 1:]
    cache.batch_repeat_interleave(len(longer))
    # A label's padding stands to the right of its tokens, where causal attention never sees it.
    mask = F.pad(mask.repeat_interleave(len(longer), 0), (0, length), value=1)
    logits = read(model, label_ids, mask, cache)
    log_p = logits.float().log_softmax(-1).gather(-1, predicted.clamp(min=0)[..., None])[..., 0]
    rest = (log_p * (predicted >= 0)).sum(-1).view(len(prompts), len(longer))
    scores[:, longer] += rest
    return scores
