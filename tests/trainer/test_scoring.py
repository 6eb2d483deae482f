"""Scores of a rollout against the full logits, one unpadded response at a time, and statistics against plain loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from sif_trainer.certainty.formula import entropy, self_certainty, token_log_probs
from sif_trainer.certainty.head import TokenScores, add_certainty_head
from sif_trainer.certainty.profile import ranked_profile
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.trainer.scoring import (
    STATISTICS,
    ResponseStatistics,
    Rollout,
    repetition_rate,
    response_statistics,
    score_rollout,
    top_word_share,
)
from sif_trainer.trainer.trainer import SIFTrainer

CPU = torch.device("cpu")
RULE = FeedbackSettings(num_windows=3, window_size=2, min_stride=1, window_wins=2)
FIELDS = ("log_probs", "entropy", "certainty")


def rollout(tools: bool = False) -> Rollout:
    generator = torch.Generator().manual_seed(1)
    sizes = [(3, 7), (9, 2), (1, 12), (5, 1), (4, 8)]
    prompts = [torch.randint(3, 40, (p,), generator=generator).tolist() for p, _ in sizes]
    completions = [torch.randint(3, 40, (c,), generator=generator).tolist() for _, c in sizes]
    tool_mask = [[int(t % 3 != 1) for t in range(c)] for _, c in sizes] if tools else None
    return Rollout(prompts, completions, tool_mask)


def scored_model(temperature: float = 1.0) -> Any:
    model = tiny.model().eval()
    add_certainty_head(model, temperature=temperature)
    return model


@torch.no_grad()
def full_logits(model: Any, rolled: Rollout, temperature: float) -> list[dict[str, Tensor]]:
    """Per response, (L,) scores of its tokens from the model's own logits, without any padding."""
    rows = []
    for prompt, completion in zip(rolled.prompt_ids, rolled.completion_ids, strict=True):
        logits = model(torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1] / temperature
        values = (token_log_probs(logits, torch.tensor(completion)), entropy(logits), self_certainty(logits))
        rows.append(dict(zip(FIELDS, values, strict=True)))
    return rows


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 5, 8])
def test_scores_are_those_of_the_full_logits(batch_size: int, tools: bool, temperature: float) -> None:
    model, rolled = scored_model(temperature), rollout(tools)
    scores = score_rollout(model, rolled, pad_token_id=0, batch_size=batch_size, device=CPU)
    for i, expected in enumerate(full_logits(model, rolled, temperature)):
        length = len(rolled.completion_ids[i])
        generated = torch.tensor(rolled.tool_mask[i] if tools else [1] * length)
        for name in FIELDS:
            row = getattr(scores, name)[i]
            assert row.dtype == torch.float32
            torch.testing.assert_close(row[:length], expected[name] * generated, rtol=1e-5, atol=1e-5)
            assert not row[length:].any()


def test_micro_batches_are_sorted_by_length_and_as_many_on_every_process() -> None:
    model, shapes = scored_model(), []
    model.model.register_forward_pre_hook(
        lambda m, a, kwargs: shapes.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    score_rollout(model, rollout(), pad_token_id=0, batch_size=2, device=CPU)
    assert [rows for rows, _ in shapes] == [2, 2, 1]
    widths = [width for _, width in shapes]
    # Prompt and completion lengths are 3 + 7, 9 + 2, 1 + 12, 5 + 1, 4 + 8, the longest sums first.
    assert widths == [4 + 12, 9 + 7, 5 + 1]
    assert widths[-1] < 9 + 12  # what padding to the longest prompt and completion would cost every row


def test_one_batch_however_the_prompt_is_padded() -> None:
    """A response is scored alike beside a long prompt and alone, so padding is neither attended nor scored."""
    model, rolled = scored_model(), rollout()
    together = score_rollout(model, rolled, pad_token_id=0, batch_size=5, device=CPU)
    for i, (prompt, completion) in enumerate(zip(rolled.prompt_ids, rolled.completion_ids, strict=True)):
        alone = score_rollout(model, Rollout([prompt], [completion], None), pad_token_id=0, batch_size=1, device=CPU)
        torch.testing.assert_close(together.certainty[i, : len(completion)], alone.certainty[0], rtol=1e-5, atol=1e-5)


def random_scores(rolled: Rollout, seed: int = 0) -> TokenScores:
    mask = rolled.valid_mask(CPU)
    values = torch.rand(3, *mask.shape, generator=torch.Generator().manual_seed(seed)) * 20
    return TokenScores(*(value.masked_fill(~mask, 0.0) for value in values))


TRUNCATED = [False, True, False, False, True]
TEXTS = ["the cat sat on the mat", "a b", "the the", "", "dog"]


def statistics(scores: TokenScores, rolled: Rollout) -> ResponseStatistics:
    return ResponseStatistics.from_rows(response_statistics(scores, rolled, TRUNCATED, TEXTS, RULE))


@pytest.mark.parametrize("tools", [False, True])
def test_statistics_against_plain_loops(tools: bool) -> None:
    rolled = rollout(tools)
    scores = random_scores(rolled)
    found = statistics(scores, rolled)
    for i, ids in enumerate(rolled.completion_ids):
        mask = rolled.tool_mask[i] if tools else [1] * len(ids)
        certainties = [scores.certainty[i, t].item() for t in range(len(ids)) if mask[t]]
        entropies = [scores.entropy[i, t].item() for t in range(len(ids)) if mask[t]]
        mean = sum(certainties) / len(certainties)
        assert found.length[i] == len(certainties)
        assert found.certainty_mean[i].item() == pytest.approx(mean, rel=1e-12)
        variance = sum((c - mean) ** 2 for c in certainties) / len(certainties)
        assert found.certainty_variance[i].item() == pytest.approx(variance, rel=1e-12, abs=1e-12)
        assert found.entropy_mean[i].item() == pytest.approx(sum(entropies) / len(entropies), rel=1e-12)
        assert found.repetition_rate[i].item() == pytest.approx(repetition_rate(ids))
        assert found.top_word_share[i].item() == pytest.approx(4 / 11)
    assert found.finite.all() and found.finite.dtype == torch.bool
    assert found.truncated.tolist() == TRUNCATED
    expected = ranked_profile(scores.certainty, rolled.valid_mask(CPU), RULE.num_windows, RULE.window_size)
    assert torch.equal(found.profile.nan_to_num(-1), expected.nan_to_num(-1))


def test_rows_have_a_fixed_width_in_float64() -> None:
    rolled = rollout()
    rows = response_statistics(random_scores(rolled), rolled, TRUNCATED, TEXTS, RULE)
    assert rows.shape == (5, RULE.num_windows + len(STATISTICS)) and rows.dtype == torch.float64


@pytest.mark.parametrize("field", ["certainty", "log_probs"])
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_noticed_in_its_own_row_and_only_where_it_is_valid(
    field: str, poison: float
) -> None:
    rolled = rollout(tools=True)
    scores = random_scores(rolled)
    getattr(scores, field)[0, 2] = poison
    getattr(scores, field)[2, 1] = poison  # a tool token
    getattr(scores, field)[3, 5] = poison  # padding
    found = statistics(scores, rolled)
    assert found.finite.tolist() == [False, True, True, True, True]
    assert found.certainty_mean[1:].isfinite().all()


def test_prompts_are_told_apart_exactly_by_their_hash() -> None:
    rolled = rollout()
    rolled.prompt_ids[3] = list(rolled.prompt_ids[0])
    hashes = statistics(random_scores(rolled), rolled).prompt_hash
    assert hashes[3] == hashes[0]
    assert len(hashes.unique()) == 4
    assert torch.equal(hashes, hashes.round())


def test_repetition_rate() -> None:
    assert repetition_rate([]) == repetition_rate([1, 2, 3]) == repetition_rate([1, 1, 1, 1]) == 0
    assert repetition_rate([7] * 13) == pytest.approx(9 / 10)
    assert repetition_rate([1, 2, 3, 4, 1, 2, 3, 4]) == pytest.approx(1 / 5)
    assert repetition_rate([1, 2, 1, 2], n=2) == pytest.approx(1 / 3)
    assert repetition_rate(range(50)) == 0


def test_top_word_share() -> None:
    assert top_word_share([]) == top_word_share(["", "  "]) == 0
    assert top_word_share(["so so", "so what"]) == pytest.approx(3 / 4)
    assert top_word_share(["a b", "c\nd"]) == pytest.approx(1 / 4)


def test_where_trl_has_scored_already_its_pass_gives_the_same_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both: list[tuple[bool, TokenScores, TokenScores]] = []
    own = SIFTrainer._token_scores

    def compared(self: SIFTrainer) -> TokenScores:
        pad, size = self._tokenizer.pad_token_id, self.args.per_device_train_batch_size
        both.append((bool(self._tape), own(self), score_rollout(self.model, self._rollout, pad, size, CPU)))
        return both[-1][1]

    monkeypatch.setattr(SIFTrainer, "_token_scores", compared)
    for num_iterations in (1, 2):
        settings = {"num_iterations": num_iterations, "rollout_func": tiny.fixed_rollouts}
        tiny.trainer(tmp_path / f"{num_iterations}", max_steps=1, pad_to_multiple_of=8, **settings).train()
    assert [recorded for recorded, _, _ in both] == [False, True]
    for _, found, expected in both:
        for name in FIELDS:
            torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-5)


def test_step_confidence_comes_out_of_trls_own_pass_as_well(tmp_path: Path) -> None:
    """With num_iterations=2 TRL scores the old log-probabilities itself, and no second pass is run."""
    settings = {"feedback": "scope", "answers": tiny.FirstLetter(), "max_steps": 1, "learning_rate": 0.0}
    seen = []
    for name, num_iterations in (("ours", 1), ("trls", 2)):
        trainer = tiny.trainer(tmp_path / name, num_iterations=num_iterations, **settings)
        columns = trainer._evidence.columns

        def kept(scores: Any, rollout: Any, columns: Any = columns) -> Any:
            found = columns(scores, rollout)
            seen.append(found["step_confidence"])
            return found

        trainer._evidence.columns = kept
        trainer.train()
    ours, trls = seen
    assert ours.isfinite().any()
    torch.testing.assert_close(ours, trls, equal_nan=True)
