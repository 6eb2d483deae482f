"""Suggested windows, and votes under other windows from what records keep of a ranking."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.certainty.profile import ranked_profile
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.probe.record import NUM_PIECES, ranked_pieces
from sif_trainer.probe.windows import suggest, window_means


def exact(certainty: np.ndarray, num_windows: int, window_size: int) -> np.ndarray:
    values = torch.from_numpy(certainty)[None]
    return ranked_profile(values, torch.ones_like(values).bool(), num_windows, window_size)[0].numpy()


@given(st.integers(1, NUM_PIECES), st.integers(1, 12), st.integers(1, 40), st.integers(0, 1000))
def test_short_responses_are_kept_exactly(length: int, num_windows: int, window_size: int, seed: int) -> None:
    certainty = np.random.default_rng(seed).gamma(2, 4, size=length)
    found = window_means(np.asarray(ranked_pieces(certainty)), length, num_windows, window_size)
    np.testing.assert_allclose(found, exact(certainty, num_windows, window_size), atol=1e-5)


@pytest.mark.parametrize("length", [129, 550, 3072])
def test_long_responses_are_kept_in_pieces(length: int) -> None:
    certainty = np.random.default_rng(length).gamma(2, 4, size=length)
    pieces = ranked_pieces(certainty)
    assert len(pieces) == NUM_PIECES and pieces == sorted(pieces, reverse=True)
    assert np.mean(pieces) == pytest.approx(certainty.mean(), abs=1e-5)
    wanted = exact(certainty, 10, 100)
    np.testing.assert_allclose(window_means(np.asarray(pieces), length, 10, 100), wanted, atol=0.02 * wanted[0])


def test_what_is_not_finite_or_too_short_has_no_windows() -> None:
    assert ranked_pieces(np.array([1.0, np.nan])) == []
    assert np.isnan(window_means(np.array([]), 50, 3, 2)).all()
    assert np.isnan(window_means(np.array([2.0, 1.0]), 2, 3, 4)).all()


def test_the_papers_windows_are_suggested_for_the_papers_length() -> None:
    found = suggest(FeedbackSettings(window_size=1, min_stride=1), torch.full((8, 8), 550))
    assert found is not None
    assert (found.window_size, found.min_stride, found.num_windows, found.window_wins) == (100, 50, 10, 8)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(1, 12))
def test_nine_of_ten_responses_can_vote_under_the_suggestion(lengths: list[int], num_windows: int) -> None:
    recipe = FeedbackSettings(feedback="top2", num_windows=num_windows, window_wins=max(1, num_windows - 2))
    found = suggest(recipe, torch.tensor(lengths))
    if found is None:
        assert sorted(lengths)[(len(lengths) - 1) // 10] < 2
        return
    assert found.feedback == "sif" and 1 <= found.window_wins <= found.num_windows <= num_windows
    assert sum(length >= found.windows.min_length for length in lengths) >= 0.9 * len(lengths)


def test_no_responses_no_suggestion() -> None:
    assert suggest(FeedbackSettings(), torch.zeros(0)) is None
