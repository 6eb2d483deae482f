"""From rollout token ids to what a vote needs: one no-gradient pass, then a fixed row of numbers per response.

Only that row, `num_windows + len(STATISTICS)` floats, is gathered between processes; token certainties never leave
theirs.

Shapes: B completions of this process, T their longest length, P padded prompt length, K windows.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sif_trainer.certainty.head import TokenScores
from sif_trainer.certainty.profile import band_mean, ranked_profile
from sif_trainer.feedback.settings import FeedbackSettings

NGRAM = 4
STATISTICS = (
    "length",
    "certainty_mean",
    "certainty_variance",
    "certainty_band",
    "entropy_mean",
    "log_prob_mean",
    "step_confidence",
    "gradient_norm",
    "finite",
    "truncated",
    "repetition_rate",
    "top_word_share",
    "prompt_hash",
)


@dataclass
class Rollout:
    """Token ids of this process's completions, as TRL's `_generate` returned them, without padding."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    tool_mask: list[list[int]] | None
    log_probs: list[list[float | None]] | None = None  # of the drawn tokens, where the engine gives them

    def valid_mask(self, device: torch.device) -> Tensor:
        """(B, T) bool: tokens that the policy generated, end token included; tool tokens and padding excluded."""
        width = max(len(ids) for ids in self.completion_ids)
        rows = self.tool_mask or [[1] * len(ids) for ids in self.completion_ids]
        return torch.tensor([list(row) + [0] * (width - len(row)) for row in rows], dtype=torch.bool, device=device)


def score_rollout(
    model: Any,
    rollout: Rollout,
    pad_token_id: int,
    batch_size: int,
    device: torch.device,
) -> TokenScores:
    """Score every completion token through the (wrapped) model that carries a certainty head.

    Rows are sorted by length first, so that short ones are not padded to the longest of the whole rollout. Every
    process runs ceil(B / batch_size) forwards, whatever its rows are: sharded models hang otherwise.

    Returns:
        Log-probability, entropy, certainty and, where the head gives it, confidence, each (B, T) fp32, zero on padding
        and tool tokens.
    """
    mask = rollout.valid_mask(device)
    lengths = [len(p) + len(c) for p, c in zip(rollout.prompt_ids, rollout.completion_ids, strict=True)]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    out: dict[str, Tensor] = {}
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        inputs = _micro_batch(rollout, mask, rows, pad_token_id, device)
        with torch.no_grad():
            scores = model(**inputs, token_scores=True)
        width = max(len(rollout.completion_ids[i]) for i in rows)
        for name, part in scores.items():  # those that are not None
            total = out.setdefault(name, torch.zeros(mask.shape, dtype=torch.float32, device=device))
            total[rows, :width] = part[:, -width:]
    return TokenScores(**out)


def _micro_batch(
    rollout: Rollout, mask: Tensor, rows: list[int], pad_token_id: int, device: torch.device
) -> dict[str, Tensor]:
    """Left-pad prompts and right-pad completions of the chosen rows; labels are -100 where nothing is scored."""
    prompt_width = max(len(rollout.prompt_ids[i]) for i in rows)
    width = max(len(rollout.completion_ids[i]) for i in rows)
    ids, attention = [], []
    for i in rows:
        prompt, completion = rollout.prompt_ids[i], rollout.completion_ids[i]
        left, right = prompt_width - len(prompt), width - len(completion)
        ids.append([pad_token_id] * left + list(prompt) + list(completion) + [pad_token_id] * right)
        attention.append([0] * left + [1] * (len(prompt) + len(completion)) + [0] * right)
    input_ids = torch.tensor(ids, device=device)
    labels = input_ids.clone()
    labels[:, :prompt_width] = -100
    labels[:, prompt_width:].masked_fill_(~mask[rows, :width], -100)
    return {"input_ids": input_ids, "attention_mask": torch.tensor(attention, device=device), "labels": labels}


def response_statistics(
    scores: TokenScores,
    rollout: Rollout,
    truncated: Sequence[bool],
    texts: Sequence[str],
    settings: FeedbackSettings,
    **optional: Tensor,
) -> Tensor:
    """Reduce tokens to one float64 row per response: (B, K + len(STATISTICS)), profile first.

    The profile is NaN where the response is shorter than a window or has a logit that is not finite. `optional` are
    columns that few rules read, (B,) each, NaN where they are not given.
    """
    certainty = scores.certainty
    mask = rollout.valid_mask(certainty.device)
    length = mask.sum(1)
    tokens = length.clamp(min=1)
    values = certainty.double().masked_fill(~mask, 0.0)
    mean = values.sum(1) / tokens
    variance = (values - mean[:, None]).masked_fill(~mask, 0.0).square().sum(1) / tokens
    absent = torch.full_like(mean, torch.nan)
    band = absent
    if settings.band_low is not None and settings.band_high is not None:
        band = band_mean(values, mask, settings.band_low, settings.band_high)
    columns = {
        "length": length,
        "certainty_mean": mean,
        "certainty_variance": variance,
        "certainty_band": band,
        "entropy_mean": scores.entropy.double().masked_fill(~mask, 0.0).sum(1) / tokens,
        "log_prob_mean": scores.log_probs.double().masked_fill(~mask, 0.0).sum(1) / tokens,
        "step_confidence": optional.get("step_confidence", absent),
        "gradient_norm": optional.get("gradient_norm", absent),
        "finite": (certainty.isfinite() | ~mask).all(1) & (scores.log_probs.isfinite() | ~mask).all(1),
        "truncated": torch.tensor(truncated),
        "repetition_rate": torch.tensor([repetition_rate(ids) for ids in rollout.completion_ids]),
        "top_word_share": torch.full_like(mean, top_word_share(texts)),
        "prompt_hash": torch.tensor([zlib.crc32(repr(ids).encode()) for ids in rollout.prompt_ids]),
    }
    profile = ranked_profile(certainty, mask, settings.num_windows, settings.window_size)
    rest = [columns[name].to(device=profile.device, dtype=torch.float64) for name in STATISTICS]
    return torch.cat([profile.double(), torch.stack(rest, dim=1)], dim=1)


@dataclass(frozen=True)
class ResponseStatistics:
    """The gathered rows, by name: `profile` is (N, K), every other field (N,), N completions over all processes."""

    profile: Tensor
    length: Tensor
    certainty_mean: Tensor
    certainty_variance: Tensor
    certainty_band: Tensor
    entropy_mean: Tensor
    log_prob_mean: Tensor
    step_confidence: Tensor
    gradient_norm: Tensor
    finite: Tensor
    truncated: Tensor
    repetition_rate: Tensor
    top_word_share: Tensor
    prompt_hash: Tensor

    @classmethod
    def from_rows(cls, rows: Tensor) -> ResponseStatistics:
        """Name the columns of `response_statistics`, (N, K + len(STATISTICS))."""
        num_windows = rows.size(1) - len(STATISTICS)
        columns = dict(zip(STATISTICS, rows[:, num_windows:].unbind(1), strict=True))
        columns["finite"], columns["truncated"] = columns["finite"].bool(), columns["truncated"].bool()
        return cls(profile=rows[:, :num_windows], **columns)


def repetition_rate(token_ids: Sequence[int], n: int = NGRAM) -> float:
    """Return the fraction of token n-grams that occurred before in the same completion; 0 when there is none."""
    ngrams = [tuple(token_ids[i : i + n]) for i in range(len(token_ids) - n + 1)]
    return 1.0 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0


def top_word_share(texts: Sequence[str]) -> float:
    """Return the share of the most frequent word among all words of the texts (paper: Figure 7); 0 without words."""
    counts = Counter(word for text in texts for word in text.split())
    return max(counts.values()) / counts.total() if counts else 0.0
