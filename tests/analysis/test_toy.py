"""The toy's closed forms against brute force, and the published numbers; the trainer's walk is in tests/trainer."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.analysis import toy

THETAS = st.floats(-2, 8)


@pytest.mark.parametrize(
    ("theta", "expected"),
    [
        (0.0, (0.80, 0.19, 0.01)),
        (1.4375876555, (0.450125, 0.450125, 0.099751)),
        (2.1910133173, (0.2424674705, 0.5150650590, 0.2424674705)),
        (2.9444389792, (0.099751, 0.450125, 0.450125)),
    ],
)
def test_probabilities(theta: float, expected: tuple[float, ...]) -> None:
    assert toy.probabilities(theta) == pytest.approx(expected, abs=5e-7)


def test_crossings_and_peak() -> None:
    assert pytest.approx(1.4375876555) == toy.THETA_BC
    assert pytest.approx(2.9444389792) == toy.THETA_CW
    assert pytest.approx(2.1910133173) == toy.THETA_PEAK == (toy.THETA_BC + toy.THETA_CW) / 2
    peak = toy.probabilities(toy.THETA_PEAK)[toy.CORRECT]
    assert peak == pytest.approx(0.19 / (0.19 + 2 * math.sqrt(0.008)))
    assert peak == max(toy.probabilities(toy.THETA_PEAK + k / 100)[toy.CORRECT] for k in range(-200, 201))
    edges = [-1, toy.THETA_BC - 1e-9, toy.THETA_BC + 1e-9, toy.THETA_CW - 1e-9, toy.THETA_CW + 1e-9, 9]
    assert [toy.greedy_accuracy(theta) for theta in edges] == [0, 0, 1, 1, 0, 0]


@given(THETAS)
def test_first_certainty_is_the_divergence_of_the_uniform_distribution(theta: float) -> None:
    by_definition = sum(math.log(1 / 3 / p) / 3 for p in toy.probabilities(theta))
    assert toy.first_certainty(theta) == pytest.approx(by_definition, abs=1e-12)


@given(THETAS)
def test_slopes_are_the_derivatives(theta: float) -> None:
    def derivative(function) -> float:
        return (function(theta + 1e-5) - function(theta - 1e-5)) / 2e-5

    assert toy.reward_slope(theta) == pytest.approx(derivative(toy.expected_reward), abs=1e-8)
    assert toy.accuracy_slope(theta) == pytest.approx(derivative(lambda t: toy.probabilities(t)[1]), abs=1e-8)
    assert toy.variance_d(theta) == pytest.approx(derivative(toy.mean_d), abs=1e-8)


@pytest.mark.parametrize(
    ("theta", "certainty", "reward", "slope"),
    [
        (0.0, 1.064403, 0.637201, -0.302050),
        (toy.THETA_PEAK, 0.067134, 0.533567, 0.242467),
        (3.0, None, 0.797954, 0.396468),
        (4.0, 0.777566, None, None),
        (5.0, None, 1.731683, None),
        (10.0, 6.460095, None, None),
    ],
)
def test_reward_falls_at_first_and_rises_past_the_peak(
    theta: float, certainty: float | None, reward: float | None, slope: float | None
) -> None:
    for function, expected in (
        (toy.first_certainty, certainty),
        (toy.expected_reward, reward),
        (toy.reward_slope, slope),
    ):
        if expected is not None:
            assert function(theta) == pytest.approx(expected, abs=1e-6)
    assert toy.reward_slope(1.302199) < 0 < toy.reward_slope(1.302201)


@given(theta=THETAS, size=st.integers(2, 4))
def test_drift_is_the_expected_group_gradient(theta: float, size: int) -> None:
    """Every group is enumerated in order, and the loss's gradient taken by the definition of the advantage."""
    p, mu, expected = toy.probabilities(theta), toy.mean_d(theta), 0.0
    for group in itertools.product(range(3), repeat=size):
        rewards = [(toy.first_certainty(theta) + toy.D[b]) / 2 for b in group]
        spread = statistics.stdev(rewards)
        if spread < 1e-12:
            continue
        advantages = [(reward - statistics.fmean(rewards)) / spread for reward in rewards]
        assert max(map(abs, advantages)) <= toy.largest_advantage(size) * (1 + 1e-9)
        gradient = sum(a * (toy.D[b] - mu) / 2 for a, b in zip(advantages, group, strict=True)) / size
        expected += math.prod(p[b] for b in group) * gradient
    assert toy.drift(theta, size) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (8, (0.167119, 0.252261, 0.295937, 0.275724, 0.113277)),
        (2, (0.060069, 0.104170, 0.129192, 0.117661, 0.037477)),
    ],
)
def test_drift_is_positive_and_bounded(size: int, expected: tuple[float, ...]) -> None:
    found = [toy.drift(theta, size) for theta in (0, 1, 2, 3, 5)]
    assert found == pytest.approx(expected, abs=2e-6)
    bound = 0.5 * math.sqrt((size - 1) / size)
    assert all(0 < toy.drift(k / 10, size) <= bound for k in range(-50, 200))


@pytest.mark.parametrize(("size", "times"), [(8, (6.45, 9.04, 11.63)), (2, (16.39, 22.36, 28.32))])
def test_the_flow_passes_the_crossings_when_published(size: int, times: tuple[float, ...]) -> None:
    landmarks = (toy.THETA_BC, toy.THETA_PEAK, toy.THETA_CW)
    # The published times are those of a walk in steps of 0.01: the first step past the landmark.
    assert [math.ceil(100 * toy.flow_time(theta, size)) / 100 for theta in landmarks] == list(times)
    theta, time, span = 0.0, 0.0, 0.01  # and step by step, as a trainer goes
    while theta < toy.THETA_CW:
        theta += span * toy.drift(theta + span / 2 * toy.drift(theta, size), size)
        time += span
    assert time == pytest.approx(times[-1], abs=0.02)
    grid = [k * toy.THETA_CW / 200 for k in range(201)]
    assert toy.flow(grid, size)[-1] == pytest.approx(toy.flow_time(toy.THETA_CW, size), rel=1e-6)


def test_the_largest_advantage() -> None:
    assert [toy.largest_advantage(size) for size in (2, 8)] == pytest.approx([1 / math.sqrt(2), 2.474874], abs=1e-6)
