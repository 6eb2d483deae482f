"""Four groups small enough to follow by hand, from token certainties to the update mask."""

from __future__ import annotations

import math

import pytest
import torch

from sif_trainer.certainty.profile import ranked_profile
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.sif import SIFRule, decide

RULE = SIFRule(num_windows=3, window_size=2, min_stride=1, window_wins=2, peer_win_rate=0.75)
NAN = math.nan


def vote(rows: list[list[float]]) -> tuple[GroupOutcome, torch.Tensor]:
    width = max(map(len, rows))
    certainty = torch.tensor([[*row, *[99.0] * (width - len(row))] for row in rows], dtype=torch.float32)
    lengths = torch.tensor([len(row) for row in rows])
    profile = ranked_profile(certainty, torch.arange(width) < lengths[:, None], RULE.num_windows, RULE.window_size)
    return decide(profile.unsqueeze(0), (lengths >= RULE.min_length).unsqueeze(0), RULE), profile


def test_the_shortest_eligible_response_has_four_tokens() -> None:
    assert RULE.min_length == 4


def test_group_a_a_flat_response_wins_and_a_tie_in_one_window_is_no_vote() -> None:
    outcome, profile = vote([[5, 1, 4, 2], [6, 3, 2, 2, 1], [9, 9, 0, 0, 0, 0], [7, 7, 7], [4, 4, 4, 4]])
    assert profile[[0, 1, 2, 4]].tolist() == [[4.5, 3, 1.5], [4.5, 2.5, 1.5], [9, 0, 0], [4, 4, 4]]
    assert outcome.eligible[0].tolist() == [True, True, True, False, True]
    assert outcome.peer_wins[0].tolist() == [1, 1, 0, 0, 3]
    assert outcome.reward[0].tolist() == pytest.approx([0, 0, 0, NAN, 1], nan_ok=True)
    scale = 1 / (1 + 2e-6)  # the standard deviation is 0.5, epsilon 1e-6
    expected = [-0.5 * scale, -0.5 * scale, -0.5 * scale, 0, 1.5 * scale]
    assert outcome.advantage[0].tolist() == pytest.approx(expected, rel=1e-12)
    assert outcome.keep[0].tolist() == [True, True, True, False, True]


def test_group_b_a_clear_order_with_two_equals_and_a_short_response() -> None:
    outcome, _ = vote([[5] * 4, [4] * 4, [3] * 4, [3] * 4, [9, 9]])
    assert outcome.peer_wins[0].tolist() == [3, 2, 0, 0, 0]
    assert outcome.reward[0].tolist() == pytest.approx([1, 0, 0, 0, NAN], nan_ok=True)
    assert outcome.advantage[0].tolist() == pytest.approx([1.5, -0.5, -0.5, -0.5, 0], rel=1e-5)
    assert outcome.keep[0].tolist() == [True, True, True, True, False]


def test_group_c_identical_responses_drop_their_group() -> None:
    outcome, _ = vote([[5] * 4] * 3)
    assert outcome.peer_wins[0].tolist() == [0, 0, 0]
    assert outcome.reward[0].tolist() == [0, 0, 0]
    assert not outcome.keep.any() and not outcome.advantage.any()


def test_group_d_a_single_eligible_response_has_nobody_to_beat() -> None:
    outcome, _ = vote([[5] * 4, [1, 1], [2, 2]])
    assert outcome.reward[0].tolist() == pytest.approx([0, NAN, NAN], nan_ok=True)
    assert not outcome.keep.any() and not outcome.advantage.any()
