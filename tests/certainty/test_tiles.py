from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sif_trainer.certainty import tiles
from sif_trainer.certainty.formula import entropy, self_certainty, token_log_probs
from sif_trainer.certainty.logits import LogitTransform


def problem(num_tokens: int, vocab_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, 16, generator=generator)
    weight, bias = torch.randn(vocab_size, 16, generator=generator), torch.randn(vocab_size, generator=generator)
    return hidden, weight, bias, torch.randint(vocab_size, (num_tokens,), generator=generator)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(
    "transform",
    [LogitTransform(), LogitTransform(temperature=0.6), LogitTransform(0.5, 3.0, 1.7), LogitTransform(scale=2.5)],
)
def test_against_full_logits_in_fp64(
    transform: LogitTransform, with_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "TILE_TOKENS", 7)
    monkeypatch.setattr(tiles, "TILE_VOCABULARY_CPU", 64)
    hidden, weight, bias, targets = problem(num_tokens=23, vocab_size=211)  # neither divides by its tile
    logits = hidden.double() @ weight.double().T * transform.scale
    if with_bias:
        logits += bias.double() * transform.scale
    if transform.softcap:
        logits = transform.softcap * torch.tanh(logits / transform.softcap)
    logits /= transform.temperature

    scores = tiles.score_tokens(hidden, weight, bias if with_bias else None, targets, transform)
    expected = token_log_probs(logits, targets), entropy(logits), self_certainty(logits)
    for actual, wanted in zip(scores, expected, strict=True):
        assert actual.dtype == torch.float32
        assert torch.allclose(actual.double(), wanted, rtol=0, atol=1e-5)


def test_logits_that_are_not_finite_spoil_their_own_row_only() -> None:
    hidden, weight, _, targets = problem(num_tokens=5, vocab_size=50)
    clean = tiles.score_tokens(hidden, weight, None, targets, LogitTransform())
    hidden[1], hidden[3] = torch.nan, torch.inf
    for spoilt, whole in zip(tiles.score_tokens(hidden, weight, None, targets, LogitTransform()), clean, strict=True):
        assert not spoilt[[1, 3]].isfinite().any()
        assert torch.equal(spoilt[[0, 2, 4]], whole[[0, 2, 4]])


def test_no_tokens() -> None:
    hidden, weight, bias, targets = problem(num_tokens=0, vocab_size=50)
    assert [len(x) for x in tiles.score_tokens(hidden, weight, bias, targets, LogitTransform())] == [0, 0, 0]


def test_certainty_of_large_logits_keeps_its_precision() -> None:
    hidden, weight, _, targets = problem(num_tokens=4, vocab_size=300)
    _, tiny_entropy, certainty = tiles.score_tokens(hidden * 300, weight, None, targets, LogitTransform())
    logits = hidden.double() * 300 @ weight.double().T
    assert torch.allclose(certainty.double(), self_certainty(logits), rtol=1e-6, atol=0)
    assert torch.allclose(tiny_entropy.double(), entropy(logits), rtol=0, atol=1e-5)


class LargestResult(TorchDispatchMode):
    """Remembers the size of the largest tensor that an operation gives."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@pytest.mark.parametrize("softcap", [None, 30.0])
def test_nothing_larger_than_a_pair_of_tiles_is_made(softcap: float | None) -> None:
    vocab_size, num_tokens = 150_001, 1500
    weight = torch.randn(vocab_size, 2)
    hidden, targets = torch.randn(num_tokens, 2), torch.randint(vocab_size, (num_tokens,))
    with LargestResult() as largest:
        largest.numel = 0
        scores = tiles.score_tokens(hidden, weight, None, targets, LogitTransform(softcap=softcap))
    assert largest.numel == max(weight.numel(), 2 * tiles.TILE_TOKENS * tiles.TILE_VOCABULARY_CPU)
    assert largest.numel < num_tokens * vocab_size / 50
    assert math.isfinite(sum(x.sum().item() for x in scores))
