"""The paper's constructive example in closed form: a reward by mean certainty leads through accuracy and past it.

    sif analyze --toy                      # table and figure (docs/theory.md)
    drift(0.0, num_generations=8)          # 0.167119

A response has two tokens. The first is B, C or W, drawn from p_theta(b) proportional to p0(b) exp(theta d_b) with
d = 0, 1, 2; only C is correct. The second comes from a fixed nu_b with KL(U || nu_b) = d_b. The paper's scale of the
latter could not be read; this one is ours, and group-normalised advantages do not depend on it. The trainer walks the
same path in tests/trainer/test_toy.py.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_simpson, quad

TOKENS = ("B", "C", "W")
CORRECT = TOKENS.index("C")
D = (0.0, 1.0, 2.0)
P0 = (0.80, 0.19, 0.01)
THETA_BC = math.log(P0[0] / P0[1])  # p(B) = p(C): greedy decoding turns to C
THETA_CW = math.log(P0[1] / P0[2])  # p(C) = p(W): and here to W
THETA_PEAK = 0.5 * math.log(P0[0] / P0[2])  # p(B) = p(W): the midpoint, where p(C) is highest


def probabilities(theta: float) -> tuple[float, float, float]:
    """Return the probabilities of B, C and W."""
    weights = [p * math.exp(theta * d) for p, d in zip(P0, D, strict=True)]
    b, c, w = (weight / math.fsum(weights) for weight in weights)
    return b, c, w


def mean_d(theta: float) -> float:
    """Return mu = E[d], the mean certainty of the second token; in nats."""
    return sum(p * d for p, d in zip(probabilities(theta), D, strict=True))


def variance_d(theta: float) -> float:
    """Return Var(d) = d mu / d theta."""
    mu = mean_d(theta)
    return sum(p * (d - mu) ** 2 for p, d in zip(probabilities(theta), D, strict=True))


def first_certainty(theta: float) -> float:
    """Return KL(U || p_theta) = ln Z - theta - ln 3 - mean ln p0, the certainty of the first token; in nats."""
    log_z = math.log(sum(p * math.exp(theta * d) for p, d in zip(P0, D, strict=True)))
    return log_z - theta - math.log(3) - sum(map(math.log, P0)) / 3


def expected_reward(theta: float) -> float:
    """Return R = E[mean certainty of a response] = (KL(U || p_theta) + mu) / 2; in nats."""
    return (first_certainty(theta) + mean_d(theta)) / 2


def reward_slope(theta: float) -> float:
    """Return dR / d theta = (mu - 1 + Var(d)) / 2: negative at first, positive from the peak of accuracy on."""
    return (mean_d(theta) - 1 + variance_d(theta)) / 2


def accuracy_slope(theta: float) -> float:
    """Return d p(C) / d theta = p(C) (1 - mu): zero at the peak, where mu = 1."""
    return probabilities(theta)[CORRECT] * (1 - mean_d(theta))


def greedy_accuracy(theta: float) -> int:
    """Return 1 where greedy decoding gives C, else 0; ties go to the first of B, C, W."""
    p = probabilities(theta)
    return int(p.index(max(p)) == CORRECT)


def largest_advantage(num_generations: int) -> float:
    """Return the bound on any standardised advantage, (G - 1) / sqrt(G), which a single winner attains."""
    return (num_generations - 1) / math.sqrt(num_generations)


def drift(theta: float, num_generations: int) -> float:
    """Return h(theta), the expected gradient step of a group: (G - 1) / (2 G) E[s_d], which is always positive.

    s_d is the sample standard deviation of d in the group; the advantages are (d - mean) / s_d, whatever the reward's
    scale, and half of a response's tokens depend on theta. Exact: all counts of B, C and W are summed. Advantage
    epsilon 0.
    """
    b, c, w = probabilities(theta)
    expected = math.fsum(
        ways * b**num_b * c**num_c * w**num_w * spread
        for (num_b, num_c, num_w), ways, spread in _groups(num_generations)
    )
    return (num_generations - 1) / (2 * num_generations) * expected


@functools.cache
def _groups(size: int) -> list[tuple[tuple[int, int, int], int, float]]:
    """Return every composition of a group: counts of B, C and W, in how many orders, and the sample std of d."""
    found = []
    for num_b, num_c in itertools.product(range(size + 1), repeat=2):
        if (num_w := size - num_b - num_c) >= 0:
            ways = math.factorial(size) // math.prod(map(math.factorial, (num_b, num_c, num_w)))
            spread = statistics.stdev([D[0]] * num_b + [D[1]] * num_c + [D[2]] * num_w)
            found.append(((num_b, num_c, num_w), ways, spread))
    return found


def flow_time(theta: float, num_generations: int) -> float:
    """Return when the flow theta' = h(theta), which starts at 0, reaches theta: the integral of 1 / h."""
    return float(quad(lambda t: 1 / drift(t, num_generations), 0, theta)[0])


def flow(thetas: Sequence[float], num_generations: int) -> NDArray[np.float64]:
    """Return the times at which the flow passes evenly spaced thetas, of which the first is 0."""
    slowness = [1 / drift(theta, num_generations) for theta in thetas]
    return np.asarray(cumulative_simpson(slowness, x=np.asarray(thetas), initial=0), dtype=np.float64)


def toy_results(num_generations: Sequence[int] = (2, 8), last: float = 6.0, num_points: int = 301) -> dict[str, Any]:
    """Return the path's landmarks and its curves from theta = 0 to `last`, as plain values for report/toy.py."""
    thetas = [last * k / (num_points - 1) for k in range(num_points)]
    chances = [probabilities(theta) for theta in thetas]
    curves: dict[str, list[float]] = {"theta": thetas}
    curves |= {f"p({token})": [p[k] for p in chances] for k, token in enumerate(TOKENS)}
    curves["greedy accuracy"] = [greedy_accuracy(theta) for theta in thetas]
    curves["R"] = [expected_reward(theta) for theta in thetas]
    for size in num_generations:
        curves[f"h, G={size}"] = [drift(theta, size) for theta in thetas]
        curves[f"time, G={size}"] = flow(thetas, size).tolist()
    places = {
        "start": 0.0, "C overtakes B": THETA_BC, "peak of p(C)": THETA_PEAK, "W overtakes C": THETA_CW, "beyond": 5.0
    }  # fmt: skip
    landmarks = [
        {
            "at": name,
            "theta": theta,
            "p(C)": probabilities(theta)[CORRECT],
            "mu": mean_d(theta),
            "certainty": first_certainty(theta),
            "R": expected_reward(theta),
            "dR": reward_slope(theta),
            **{f"h, G={size}": drift(theta, size) for size in num_generations},
            **{f"time, G={size}": flow_time(theta, size) for size in num_generations},
        }
        for name, theta in places.items()
    ]
    return {"num_generations": list(num_generations), "curves": curves, "landmarks": landmarks}
