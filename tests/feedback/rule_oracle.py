"""Each rule once more, for one group at a time, in plain Python: rewards and who is kept.

A response is a dict of what `batches.batch` made. Rules that draw at random are not here: their tests count.
"""

from __future__ import annotations

import math
from typing import Any

Response = dict[str, Any]
Verdicts = list[tuple[float | None, bool]]  # reward (None: not eligible), keep


def all_kept(group: list[Response], reward) -> Verdicts:
    return [(reward(r), True) if r["usable"] else (None, False) for r in group]


def intuitor(group: list[Response]) -> Verdicts:
    return all_kept(group, lambda r: r["certainty_mean"])


def top2(group: list[Response]) -> Verdicts:
    order = sorted((i for i, r in enumerate(group) if r["usable"]), key=lambda i: (-group[i]["certainty_mean"], i))
    best = {id(group[i]) for i in order[:2]}
    return all_kept(group, lambda r: float(id(r) in best))


def votes(group: list[Response], min_length: int, window_wins: int) -> tuple[list[int], dict[int, int]]:
    eligible = [i for i, r in enumerate(group) if r["usable"] and r["length"] >= min_length]
    wins = {}
    for i in eligible:
        wins[i] = 0
        for j in eligible:
            windows = sum(a > b for a, b in zip(group[i]["profile"], group[j]["profile"], strict=True))
            wins[i] += i != j and windows >= window_wins
    return eligible, wins


def sif_no_peer(group: list[Response]) -> Verdicts:
    eligible, wins = votes(group, 4, 2)
    rewards = {i: wins[i] / max(len(eligible) - 1, 1) for i in eligible}
    decided = len(set(rewards.values())) > 1
    return [(rewards[i], decided) if i in rewards else (None, False) for i in range(len(group))]


def sif_no_window(group: list[Response]) -> Verdicts:
    usable = [i for i, r in enumerate(group) if r["usable"]]
    rewards = {}
    for i in usable:
        beaten = sum(group[i]["certainty_mean"] > group[j]["certainty_mean"] for j in usable if j != i)
        rewards[i] = float(len(usable) > 1 and beaten >= 0.5 * (len(usable) - 1) and beaten >= 1)
    decided = len(set(rewards.values())) > 1
    return [(rewards[i], decided) if i in rewards else (None, False) for i in range(len(group))]


def gate(passes):
    def verdicts(group: list[Response]) -> Verdicts:
        return [(r["certainty_mean"], passes(r)) if r["usable"] else (None, False) for r in group]

    return verdicts


def by(name: str, sign: float = 1.0):
    return lambda group: all_kept(group, lambda r: sign * r[name])


def answer_of(r: Response) -> int | None:
    return r["answer"] if r["usable"] and r["answer"] >= 0 else None


def most_frequent(answers: list[int | None]) -> int | None:
    given = [a for a in answers if a is not None]
    return max(given, key=lambda a: (given.count(a), -given.index(a))) if given else None


def by_label(group: list[Response], label: int | None, num_trained: int | None = None) -> Verdicts:
    trained = [r["usable"] and (num_trained is None or i < num_trained) for i, r in enumerate(group)]
    return [
        (float(label is not None and answer_of(r) == label), label is not None) if t else (None, False)
        for r, t in zip(group, trained, strict=True)
    ]


def majority(group: list[Response], num_trained: int | None = None) -> Verdicts:
    return by_label(group, most_frequent([answer_of(r) for r in group]), num_trained)


def srt(group: list[Response]) -> Verdicts:
    answers = [answer_of(r) for r in group]
    label = most_frequent(answers)
    agreed = label is not None and answers.count(label) / len(group) >= 0.4
    return [(reward, keep and agreed) for reward, keep in by_label(group, label)]


def share(group: list[Response], r: Response) -> float:
    answers = [answer_of(other) for other in group]
    return 0.0 if answer_of(r) is None else answers.count(answer_of(r)) / len(group)


def soft_majority(group: list[Response]) -> Verdicts:
    return all_kept(group, lambda r: share(group, r))


def empo(group: list[Response]) -> Verdicts:
    return all_kept(group, lambda r: max(share(group, r), 1 / len(group)))


def co_rewarding_ema(group: list[Response]) -> Verdicts:
    return by_label(group, most_frequent([r["teacher_answer"] if r["teacher_answer"] >= 0 else None for r in group]))


def vigor(group: list[Response]) -> Verdicts:
    scores = [-math.sqrt(r["length"]) * r["gradient_norm"] for r in group if r["usable"]]

    def reward(r: Response) -> float:
        mine = -math.sqrt(r["length"]) * r["gradient_norm"]
        places = [i for i, score in enumerate(sorted(scores)) if score == mine]
        return 2 * (sum(places) / len(places)) / max(len(scores) - 1, 1) - 1

    return all_kept(group, reward)


ORACLES = {
    "intuitor": intuitor,
    "sif_no_peer": sif_no_peer,
    "sif_no_window": sif_no_window,
    "top2": top2,
    "certainty_gate": gate(lambda r: r["certainty_mean"] <= 5.0),
    "variance_gate": gate(lambda r: r["certainty_variance"] <= 4.0),
    "entropy_gate": gate(lambda r: r["entropy_mean"] >= 1.0),
    "length_gate": gate(lambda r: r["length"] >= 4),
    "band": by("certainty_band"),
    "majority": majority,
    "soft_majority": soft_majority,
    "empo": empo,
    "srt": srt,
    "co_rewarding_ema": co_rewarding_ema,
    "vigor": vigor,
    "rent": by("entropy_mean", -1.0),
    "trajectory_entropy": by("log_prob_mean"),
    "verifier": by("verdict"),
}


def advantages(verdicts: Verdicts, epsilon: float) -> list[float]:
    """Standardised over the eligible responses; 0 for what is not kept, and for equal rewards."""
    rewards = [reward for reward, _ in verdicts if reward is not None]
    if len(set(rewards)) < 2:
        return [0.0] * len(verdicts)
    mean = sum(rewards) / len(rewards)
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    return [(reward - mean) / (std + epsilon) if keep else 0.0 for reward, keep in verdicts]
