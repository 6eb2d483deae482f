from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.certainty.profile import min_length, ranked_profile, window_starts

values = st.floats(0, 60, width=32, allow_subnormal=False)


def loop_profile(certainties: list[float], num_windows: int, window_size: int) -> list[float]:
    """The oracle: plain Python, one response at a time."""
    if len(certainties) < window_size or not all(math.isfinite(c) for c in certainties):
        return [math.nan] * num_windows
    ranked = sorted(certainties, reverse=True)
    spare = len(ranked) - window_size
    starts = [0] if num_windows == 1 else [k * spare // (num_windows - 1) for k in range(num_windows)]
    return [sum(ranked[a : a + window_size]) / window_size for a in starts]


def padded(rows: list[list[float]], length: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    length = max(map(len, rows)) if length is None else length
    mask = torch.tensor([[t < len(row) for t in range(length)] for row in rows])
    certainty = torch.full(mask.shape, 999.0)  # what is masked must not count, whatever it is
    for i, row in enumerate(rows):
        certainty[i, : len(row)] = torch.tensor(row)
    return certainty, mask


@pytest.mark.parametrize(
    ("length", "starts"),
    [
        (550, [0, 50, 100, 150, 200, 250, 300, 350, 400, 450]),
        (551, [0, 50, 100, 150, 200, 250, 300, 350, 400, 451]),
        (552, [0, 50, 100, 150, 200, 251, 301, 351, 401, 452]),
        (1000, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]),
        (3072, [0, 330, 660, 990, 1320, 1651, 1981, 2311, 2641, 2972]),
    ],
)
def test_window_starts_of_the_paper(length: int, starts: list[int]) -> None:
    assert window_starts(torch.tensor([length]), 10, 100).tolist() == [starts]


def test_window_starts_where_a_float_quotient_gives_a_wrong_floor() -> None:
    lengths = torch.arange(1, 1200)
    for num_windows in range(1, 13):
        starts = window_starts(lengths, num_windows, 1)
        exact = [[k * (n - 1) // max(num_windows - 1, 1) for k in range(num_windows)] for n in lengths.tolist()]
        assert starts.dtype == torch.int64
        assert starts.tolist() == exact
    assert math.floor(7 * ((62 - 1) / 7)) == 60 != window_starts(torch.tensor([62]), 8, 1)[0, 7].item()


def test_min_length_of_the_paper_and_of_one_window() -> None:
    assert min_length(num_windows=10, window_size=100, min_stride=50) == 550
    assert min_length(num_windows=1, window_size=7, min_stride=50) == 7
    for wrong in [(0, 1, 1), (1, 0, 1), (1, 1, -1)]:
        with pytest.raises(ValueError, match="window_size"):
            min_length(*wrong)


def test_golden_profiles() -> None:
    """Group A of section 1.9: w = 2, K = 3."""
    rows = [[5, 1, 4, 2], [6, 3, 2, 2, 1], [9, 9, 0, 0, 0, 0], [7, 7, 7], [4, 4, 4, 4]]
    profile = ranked_profile(*padded([[float(c) for c in row] for row in rows]), num_windows=3, window_size=2)
    assert profile.dtype == torch.float64
    assert profile.tolist() == [[4.5, 3, 1.5], [4.5, 2.5, 1.5], [9, 0, 0], [7, 7, 7], [4, 4, 4]]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(values, min_size=1, max_size=40), min_size=1, max_size=6),
    num_windows=st.integers(1, 12),
    window_size=st.integers(1, 12),
)
def test_against_the_loop_oracle(rows: list[list[float]], num_windows: int, window_size: int) -> None:
    profile = ranked_profile(*padded(rows), num_windows, window_size)
    expected = torch.tensor([loop_profile(row, num_windows, window_size) for row in rows], dtype=torch.float64)
    assert torch.allclose(profile, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@settings(max_examples=100, deadline=None)
@given(
    row=st.lists(values, min_size=3, max_size=60),
    padding=st.integers(0, 20),
    num_windows=st.integers(1, 10),
    seed=st.integers(0, 2**31),
)
def test_order_and_masked_tokens_do_not_count_to_the_last_bit(
    row: list[float], padding: int, num_windows: int, seed: int
) -> None:
    certainty, mask = padded([row], length=len(row) + padding)
    shuffled = torch.randperm(certainty.size(1), generator=torch.Generator().manual_seed(seed))
    plain = ranked_profile(*padded([row]), num_windows, 3)
    assert torch.equal(plain, ranked_profile(certainty[:, shuffled], mask[:, shuffled], num_windows, 3))


@settings(max_examples=100, deadline=None)
@given(row=st.lists(st.floats(0, 2.0**100, width=32), min_size=5, max_size=80), num_windows=st.integers(2, 12))
def test_a_profile_never_rises(row: list[float], num_windows: int) -> None:
    profile = ranked_profile(*padded([row]), num_windows, 5)
    assert (profile.diff() <= 0).all()


def test_equal_windows_tie_whatever_lies_before_them() -> None:
    """A difference of prefix sums would differ in the last bits, and a strict vote would count it."""
    tail = (torch.rand(50, generator=torch.Generator().manual_seed(0)) * 1e-3).tolist()
    rows = [[10.0**k] * 50 + tail for k in range(1, 9)]
    last = ranked_profile(*padded(rows), num_windows=2, window_size=50)[:, -1]
    assert (last == last[0]).all()


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 1000), min_size=4, max_size=30), min_size=2, max_size=5))
def test_a_positive_affine_map_maps_the_profile(rows: list[list[int]]) -> None:
    certainty, mask = padded([[float(c) for c in row] for row in rows])
    profile = ranked_profile(certainty, mask, 4, 4)
    assert torch.equal(ranked_profile(2 * certainty + 16, mask, 4, 4), 2 * profile + 16)


def test_tool_tokens_in_the_middle_are_left_out() -> None:
    certainty = torch.tensor([[3.0, 50.0, 1.0, 60.0, 2.0]])
    mask = torch.tensor([[True, False, True, False, True]])
    assert ranked_profile(certainty, mask, 3, 1).tolist() == [[3, 2, 1]]


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_certainty_that_is_not_finite_costs_its_own_row_only(poison: float) -> None:
    certainty = torch.tensor([[1.0, 2.0, poison], [3.0, 4.0, poison], [5.0, 6.0, 7.0]])
    mask = torch.tensor([[True, True, True], [True, True, False], [True, True, True]])
    profile = ranked_profile(certainty, mask, 2, 2)
    assert profile[0].isnan().all()
    assert profile[1:].tolist() == [[3.5, 3.5], [6.5, 5.5]]


def test_rows_without_a_window() -> None:
    certainty, mask = torch.ones(2, 4), torch.tensor([[True] * 4, [False] * 4])
    assert ranked_profile(certainty, mask, 2, 3).isnan().tolist() == [[False, False], [True, True]]
    assert ranked_profile(certainty, mask, 2, 5).isnan().all()
    assert ranked_profile(torch.ones(0, 4), torch.ones(0, 4, dtype=torch.bool), 2, 3).shape == (0, 2)
    with pytest.raises(ValueError, match="num_windows=0"):
        ranked_profile(certainty, mask, 0, 3)
