"""The vote against a plain-loop oracle, and the facts that follow from its rules."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from voting import Group, profiles, vote

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import SIFRule, decide, sif, window_votes

PAPER = SIFRule()
SMALL = SIFRule(num_windows=4, window_size=2, min_stride=1, window_wins=3)

# Whole numbers: sums and window means are exact, so a tie is a tie on both sides of a comparison.
certainty = st.integers(0, 5)
group = st.lists(st.lists(certainty, min_size=1, max_size=9), min_size=1, max_size=8)


def same(a: GroupOutcome, b: GroupOutcome) -> bool:
    names = ("reward", "keep", "peer_wins", "margin")
    exact = all(torch.allclose(getattr(a, n).double(), getattr(b, n).double(), 0, 0, equal_nan=True) for n in names)
    # A row of another length is summed in another order, which may move the last bit of a standard deviation.
    return exact and torch.allclose(a.advantage, b.advantage, rtol=1e-14, atol=0)


def random_group(source: random.Random, rule: SIFRule) -> list[list[float]]:
    """Responses around the eligibility threshold whose levels differ by little, so that ties and near-wins abound."""
    spread = source.choice([0, 0, 1, 2, 4])
    shortest = max(rule.min_length - source.choice([0, 0, 2]), 1)
    rows: list[list[float]] = []
    for _ in range(source.randint(1, 12)):
        if rows and source.random() < 0.15:
            rows.append(source.sample(rows[-1], len(rows[-1])))  # the same certainties in another order
            continue
        level = source.randint(0, spread)
        rows.append([level + source.randint(0, 3) for _ in range(source.randint(shortest, rule.min_length + 8))])
    return rows


def test_agrees_with_the_loop_oracle_on_ten_thousand_groups() -> None:
    source = random.Random(0)
    rates = ["0.75", "1", "0.5", "0.28", "0.6"]
    winners: Counter[int] = Counter()
    num_groups = ties = short = 0
    for batch in range(50):
        if batch % 2:
            num_windows = source.randint(1, 10)
            window_wins = source.randint(1, num_windows)
        else:
            num_windows, window_wins = 10, 8  # the paper's
        rate = rates[batch // 2 % len(rates)]
        rule = SIFRule(num_windows, source.randint(1, 4), source.randint(0, 2), window_wins, float(rate))
        groups = [random_group(source, rule) for _ in range(210)]
        profile, eligible = profiles(groups, rule)
        outcome = decide(profile, eligible, rule)
        setting = (num_windows, rule.window_size, rule.min_stride, window_wins, Fraction(rate), 1e-6)
        verdicts = [oracle.vote(rows, *setting) for rows in groups]
        places = [(p, i) for p, rows in enumerate(groups) for i in range(len(rows))]
        expected = [verdict for group in verdicts for verdict in group]
        for name, missing in (("reward", math.nan), ("advantage", 0.0), ("keep", False), ("peer_wins", 0)):
            found = getattr(outcome, name)[tuple(zip(*places, strict=True))].double()
            values = [missing if (value := getattr(v, name)) is None else float(value) for v in expected]
            exact = torch.tensor(values, dtype=torch.float64)
            torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12, equal_nan=True)
        for (p, i), verdict in zip(places, expected, strict=True):
            assert verdict.profile is None or profile[p, i].tolist() == verdict.profile
        for p, rows in enumerate(groups):
            assert not outcome.eligible[p, len(rows) :].any()
            seen = [verdict.profile for verdict in verdicts[p] if verdict.profile is not None]
            winners[sum(verdict.reward == 1 for verdict in verdicts[p])] += 1
            ties += len(seen) != len({tuple(profile) for profile in seen})
            short += len(seen) < len(rows)
            num_groups += 1
    assert num_groups >= 10_000
    # The agreement means something only if the groups were of every kind.
    assert min(winners[0], winners[1], winners[2], ties, short) > 500


@settings(deadline=None)
@given(group, st.randoms(use_true_random=False))
def test_token_order_does_not_matter(rows: Group, source: random.Random) -> None:
    shuffled = [source.sample(row, len(row)) for row in rows]
    assert same(vote([shuffled], SMALL), vote([rows], SMALL))


@settings(deadline=None)
@given(group, st.integers(1, 7), st.integers(-50, 50))
def test_a_positive_affine_map_of_all_certainties_changes_nothing(rows: Group, factor: int, shift: int) -> None:
    mapped = [[factor * c + shift for c in row] for row in rows]
    assert same(vote([mapped], SMALL), vote([rows], SMALL))


@settings(deadline=None)
@given(group, st.randoms(use_true_random=False))
def test_outputs_follow_the_order_of_the_responses(rows: Group, source: random.Random) -> None:
    order = source.sample(range(len(rows)), len(rows))
    plain, permuted = vote([rows], SMALL), vote([[rows[i] for i in order]], SMALL)
    for name in ("reward", "keep", "peer_wins"):
        assert torch.equal(getattr(permuted, name)[0].nan_to_num(-1), getattr(plain, name)[0, order].nan_to_num(-1))
    torch.testing.assert_close(permuted.advantage[0], plain.advantage[0, order], rtol=1e-12, atol=0)


@settings(deadline=None)
@given(group, st.lists(st.lists(certainty, max_size=SMALL.min_length - 1), min_size=1, max_size=4))
def test_responses_that_are_not_eligible_change_nothing(rows: Group, short: Group) -> None:
    plain, longer = vote([rows], SMALL), vote([[*rows, *short]], SMALL)
    size = len(rows)
    kept = GroupOutcome(
        longer.reward[:, :size],
        longer.advantage[:, :size],
        longer.keep[:, :size],
        longer.peer_wins[:, :size],
        longer.margin,
    )
    assert same(kept, plain)
    assert longer.reward[:, size:].isnan().all()
    assert not longer.advantage[:, size:].any() and not longer.keep[:, size:].any()


@settings(deadline=None)
@given(st.lists(group, min_size=2, max_size=4))
def test_groups_do_not_see_each_other(groups: list[Group]) -> None:
    together = vote(groups, SMALL)
    for p, rows in enumerate(groups):
        alone = vote([rows], SMALL)
        assert torch.equal(together.keep[p, : len(rows)], alone.keep[0])
        assert torch.equal(together.advantage[p, : len(rows)], alone.advantage[0])


@settings(deadline=None)
@given(group, st.sampled_from([math.nan, math.inf, 1e300]))
def test_profiles_of_responses_that_are_not_eligible_are_not_read(rows: Group, garbage: float) -> None:
    profile, eligible = profiles([rows], SMALL)
    spoilt = profile.masked_fill(~eligible.unsqueeze(-1), garbage)
    assert same(decide(spoilt, eligible, SMALL), decide(profile, eligible, SMALL))


def test_who_is_too_short_or_not_usable_does_not_vote() -> None:
    profile = torch.arange(5.0, dtype=torch.float64).view(1, 5, 1).expand(1, 5, SMALL.num_windows)
    groups = Groups(
        profile=profile,
        length=torch.tensor([[5, 5, 5, 4, 9]]),
        certainty_mean=torch.zeros(1, 5),
        certainty_variance=torch.zeros(1, 5),
        usable=torch.tensor([[True, True, True, True, False]]),
    )
    outcome = sif(groups, FeedbackSettings(**dataclasses.asdict(SMALL)))
    assert SMALL.min_length == 5
    assert outcome.eligible.tolist() == [[True, True, True, False, False]]
    assert outcome.peer_wins.tolist() == [[0, 1, 2, 0, 0]]
    assert outcome.keep.tolist() == [[True, True, True, False, False]]


def beats(orders: list[list[int]]) -> torch.Tensor:
    """(n, n) bool, under 8 of 10 windows: in window k, response i stands at place orders[k][i]."""
    places = torch.tensor(orders, dtype=torch.float64).T.unsqueeze(0)  # (1, n, K)
    return window_votes(places)[0] >= PAPER.window_wins


def orders_of(n: int) -> st.SearchStrategy[list[list[int]]]:
    """Any order of n responses in each of ten windows, often few different ones, so that many beat each other."""
    permutation = st.permutations(range(n)).map(list)
    few = st.lists(permutation, min_size=1, max_size=5).flatmap(
        lambda pool: st.lists(st.sampled_from(pool), min_size=10, max_size=10)
    )
    return few | st.lists(permutation, min_size=10, max_size=10)


@settings(deadline=None)
@given(st.integers(2, 6).flatmap(orders_of))
def test_peer_votes_are_asymmetric(orders: list[list[int]]) -> None:
    matrix = beats(orders)
    assert not (matrix & matrix.T).any()


def test_peer_votes_can_be_mutual_at_half_of_the_windows() -> None:
    rule = SIFRule(num_windows=2, window_size=1, min_stride=0, window_wins=1)
    assert (window_votes(torch.tensor([[[2.0, 0.0], [1.0, 1.0]]])) >= rule.window_wins)[0].tolist() == [
        [False, True],
        [True, False],
    ]


@settings(deadline=None)
@given(st.sampled_from([3, 4]).flatmap(orders_of))
def test_no_cycle_of_at_most_four_responses(orders: list[list[int]]) -> None:
    matrix = beats(orders)
    for length in (3, 4):
        for cycle in itertools.permutations(range(len(matrix)), length):
            assert not all(matrix[a, b] for a, b in itertools.pairwise([*cycle, cycle[0]]))


def test_five_responses_can_beat_each_other_in_a_circle() -> None:
    """The bound of four is sharp: each edge of the circle fails in two of the ten windows."""
    orders = [[(k - i) % 5 for i in range(5)] for k in range(10)]
    matrix = beats(orders)
    assert [matrix[i, (i + 1) % 5].item() for i in range(5)] == [True] * 5


def outcome_of(orders: list[list[int]]) -> GroupOutcome:
    places = torch.tensor(orders, dtype=torch.float64).T
    falling = places - 100 * torch.arange(10)  # proper profiles; within a window only the places count
    return decide(falling.unsqueeze(0), torch.ones(1, len(places), dtype=torch.bool), PAPER)


MOST_WINNERS = {2: 1, 3: 1, 4: 1, 8: 2, 12: 3}


@settings(deadline=None)
@given(st.sampled_from(list(MOST_WINNERS)).flatmap(orders_of))
def test_the_number_of_winners_is_bounded(orders: list[list[int]]) -> None:
    assert (outcome_of(orders).reward == 1).sum() <= MOST_WINNERS[len(orders[0])]


def test_eight_responses_have_no_one_or_two_winners() -> None:
    """Random profiles of very different agreement between windows: never three, and each of 0, 1, 2 is common."""
    generator = torch.Generator().manual_seed(0)
    agreement = torch.rand(5000, 1, 1, generator=generator) * 3
    noise = torch.rand(5000, 1, 1, generator=generator) * 2
    level = torch.randn(5000, 8, 1, generator=generator, dtype=torch.float64) * agreement
    profile = level + torch.randn(5000, 8, 10, generator=generator, dtype=torch.float64) * noise
    outcome = decide(profile, torch.ones(5000, 8, dtype=torch.bool), PAPER)
    counts = (outcome.reward == 1).sum(-1).bincount()
    assert len(counts) == 3 and counts.min() > 500
    assert torch.equal(outcome.keep.any(-1), (outcome.reward == 1).any(-1))


@settings(deadline=None)
@given(st.integers(2, 4).flatmap(orders_of))
def test_at_most_four_eligible_responses_must_be_unanimous(orders: list[list[int]]) -> None:
    outcome = outcome_of(orders)
    assert torch.equal(outcome.reward == 1, outcome.peer_wins == len(orders[0]) - 1)


@settings(deadline=None)
@given(st.integers(2, 16).flatmap(lambda n: st.permutations(range(n))))
def test_one_window_is_top_m_of_the_means(means: list[int]) -> None:
    """Without windows, i.e. by the mean certainty alone, the rule is Top-m: 4 -> 1, 8 -> 2, 12 -> 3, 16 -> 4."""
    n = len(means)
    rule = SIFRule(num_windows=1, window_size=1, min_stride=0, window_wins=1)
    profile = torch.tensor(means, dtype=torch.float64).view(1, n, 1)
    reward = decide(profile, torch.ones(1, n, dtype=torch.bool), rule).reward[0]
    m = n - math.ceil(Fraction(3, 4) * (n - 1))
    assert {4: 1, 8: 2, 12: 3, 16: 4}.get(n, m) == m
    assert {i for i in range(n) if reward[i] == 1} == {i for i in range(n) if means[i] >= n - m}


def test_margin_is_the_mean_lead_in_windows() -> None:
    rule = SIFRule(num_windows=3, window_size=1, min_stride=0, window_wins=2)
    rows = [[[3.0, 3, 3], [2, 2, 2], [3, 1, 1], [9, 9, 9]], [[1.0, 1, 1]] * 4]
    eligible = torch.tensor([[True, True, True, False], [True, False, False, False]])
    margin = decide(torch.tensor(rows, dtype=torch.float64), eligible, rule).margin
    # 0 leads 1 by 3 windows, 0 leads 2 by 2 (one tie), 1 leads 2 by 2 - 1; a single response has no pair.
    assert margin[0].item() == pytest.approx((3 + 2 + 1) / 3)
    assert margin[1].isnan()


WINS_NEEDED = dict(zip(range(2, 17), [1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12], strict=True))


def test_wins_needed_at_three_quarters() -> None:
    eligible = torch.tensor(list(WINS_NEEDED))
    assert PAPER.wins_needed(eligible - 1).tolist() == list(WINS_NEEDED.values())


def test_wins_needed_is_exact_for_every_percentage_and_common_fraction() -> None:
    peers = torch.arange(1, 129)
    rates = [Fraction(i, 100) for i in range(1, 101)] + [Fraction(a, b) for b in range(2, 17) for a in range(1, b)]
    for rate in rates:
        needed = SIFRule(peer_win_rate=float(rate)).wins_needed(peers)
        assert needed.tolist() == [math.ceil(rate * n) for n in peers.tolist()], rate
    assert math.ceil(0.28 * 25) == 8 != SIFRule(peer_win_rate=0.28).wins_needed(torch.tensor(25)).item()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_windows": 0}, "num_windows=0 must be at least 1"),
        ({"window_size": 0}, "window_size=0 must be at least 1"),
        ({"window_wins": 0}, "window_wins=0 must be at least 1"),
        ({"min_stride": -1}, "min_stride=-1 must not be negative"),
        ({"window_wins": 11}, "window_wins=11 is more than num_windows=10.*could ever beat.*at most 10"),
        ({"peer_win_rate": 0}, r"peer_win_rate=0 must lie in \(0, 1\]"),
        ({"peer_win_rate": 1.01}, r"peer_win_rate=1.01 must lie in \(0, 1\]"),
        ({"peer_win_rate": math.nan}, r"peer_win_rate=nan must lie in \(0, 1\]"),
    ],
)
def test_settings_under_which_no_vote_can_work_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SIFRule(**settings)


def test_defaults_are_the_papers() -> None:
    assert SIFRule() == SIFRule(num_windows=10, window_size=100, min_stride=50, window_wins=8, peer_win_rate=0.75)
    assert SIFRule().min_length == 550
    assert SIFRule(num_windows=1, window_size=7, window_wins=1).min_length == 7


def test_settings_are_read_by_name() -> None:
    recipe = SimpleNamespace(
        num_windows=4, window_size=2, min_stride=1, window_wins=3, peer_win_rate=0.75, learning_rate=1.0
    )
    assert SIFRule.from_settings(recipe) == SMALL


def test_profiles_of_another_rule_are_refused() -> None:
    with pytest.raises(ValueError, match="profiles have 4 windows, but the rule says num_windows=10"):
        decide(torch.zeros(1, 2, 4, dtype=torch.float64), torch.ones(1, 2, dtype=torch.bool), PAPER)
