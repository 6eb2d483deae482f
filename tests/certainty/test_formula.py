from __future__ import annotations

import math

import pytest
import torch

from sif_trainer.certainty.formula import entropy, self_certainty, token_log_probs


def test_against_plain_loops_over_the_vocabulary() -> None:
    logits = torch.randn(3, 5, 7, dtype=torch.float64) * 4
    tokens = torch.randint(7, (3, 5))
    for i in range(3):
        for t in range(5):
            values = logits[i, t].tolist()
            total = sum(math.exp(x) for x in values)
            probs = [math.exp(x) / total for x in values]
            divergence = sum(1 / 7 * math.log((1 / 7) / p) for p in probs)
            assert self_certainty(logits)[i, t].item() == pytest.approx(divergence, abs=1e-12)
            assert entropy(logits)[i, t].item() == pytest.approx(-sum(p * math.log(p) for p in probs), abs=1e-12)
            assert token_log_probs(logits, tokens)[i, t].item() == pytest.approx(
                math.log(probs[int(tokens[i, t])]), abs=1e-12
            )


def test_uniform_has_certainty_zero_and_entropy_log_v() -> None:
    logits = torch.full((2, 50), 3.7)
    assert torch.allclose(self_certainty(logits), torch.zeros(2), atol=1e-6)
    assert torch.allclose(entropy(logits), torch.full((2,), math.log(50)), atol=1e-6)


def test_certainty_is_not_negative_and_ignores_an_offset() -> None:
    logits = torch.randn(100, 30) * torch.logspace(-3, 1, 100).unsqueeze(-1)
    assert self_certainty(logits).min() >= -1e-6
    assert torch.allclose(self_certainty(logits + 5), self_certainty(logits), atol=1e-5)


def test_it_is_the_divergence_from_uniform_and_not_its_reverse() -> None:
    """KL(U || p) weighs what p calls impossible: it grows without bound where KL(p || U) ends at log V."""
    logits = torch.tensor([100.0, 0.0, 0.0, 0.0])
    assert self_certainty(logits).item() == pytest.approx(75 - math.log(4), abs=1e-4)


def test_half_precision_logits_are_reduced_in_fp32() -> None:
    logits = (torch.randn(200, 500) * 5).bfloat16()
    assert self_certainty(logits).dtype == torch.float32
    assert torch.equal(self_certainty(logits), self_certainty(logits.float()))
    assert self_certainty(logits).unique().numel() == 200  # bf16 results would tie
