"""The whole vote in plain loops and Python floats, one response at a time: what the tensors must agree with.

It shares no line with the library; `benchmarks/votes.py` uses it as the yardstick, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Verdict:
    """What one response gets; `profile`, `peer_wins` and `reward` are None when it is not eligible."""

    profile: list[float] | None
    peer_wins: int | None
    reward: float | None
    advantage: float
    keep: bool


def profile(certainties: Sequence[float], num_windows: int, window_size: int) -> list[float]:
    ranked = sorted(certainties, reverse=True)
    spare = len(ranked) - window_size
    means = []
    for k in range(num_windows):
        start = k * spare // (num_windows - 1) if num_windows > 1 else 0
        means.append(sum(ranked[start : start + window_size]) / window_size)
    return means


def vote(
    group: Sequence[Sequence[float]],
    num_windows: int,
    window_size: int,
    min_stride: int,
    window_wins: int,
    peer_win_rate: Fraction,
    epsilon: float,
) -> list[Verdict]:
    """Token certainties of one group -> its verdicts."""
    min_length = window_size + min_stride * (num_windows - 1)
    profiles = [profile(row, num_windows, window_size) if len(row) >= min_length else None for row in group]
    return decide(profiles, window_wins, peer_win_rate, epsilon)


def decide(
    profiles: Sequence[list[float] | None], window_wins: int, peer_win_rate: Fraction, epsilon: float
) -> list[Verdict]:
    """Profiles of one group, None where a response is not eligible -> its verdicts."""
    eligible = [i for i, mine in enumerate(profiles) if mine is not None]
    peer_wins = {}
    for i in eligible:
        beaten = 0
        for j in eligible:
            windows = 0
            for mine, others in zip(profiles[i], profiles[j], strict=True):
                if mine > others:
                    windows += 1
            if i != j and windows >= window_wins:
                beaten += 1
        peer_wins[i] = beaten

    num_peers = len(eligible) - 1
    rewards = {i: float(num_peers > 0 and Fraction(peer_wins[i], num_peers) >= peer_win_rate) for i in eligible}
    kept = len(set(rewards.values())) > 1
    mean = std = 0.0
    if kept:
        mean = sum(rewards.values()) / len(rewards)
        std = math.sqrt(sum((r - mean) ** 2 for r in rewards.values()) / (len(rewards) - 1))

    verdicts = []
    for i, mine in enumerate(profiles):
        if mine is None:
            verdicts.append(Verdict(None, None, None, 0.0, False))
        else:
            advantage = (rewards[i] - mean) / (std + epsilon) if kept else 0.0
            verdicts.append(Verdict(mine, peer_wins[i], rewards[i], advantage, kept))
    return verdicts
