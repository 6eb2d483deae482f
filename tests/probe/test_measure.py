"""The numbers of a vote against plain loops, and what must hold of them for rules that know all or nothing."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.probe.measure import accuracy_numbers, vote_numbers, within_group_auc
from sif_trainer.probe.rules import vote

NAN = float("nan")


def batch(seed: int, num_groups: int = 6, size: int = 5) -> tuple[Groups, torch.Tensor]:
    """Random groups with some responses too short or not usable, and graded answers, of which one group has none."""
    source = torch.Generator().manual_seed(seed)
    shape = (num_groups, size)
    correct = torch.randint(2, shape, generator=source).double()
    correct[-1] = NAN
    profile = torch.rand(*shape, 3, generator=source, dtype=torch.float64).sort(-1, descending=True).values
    groups = Groups(
        profile=profile,
        length=torch.randint(3, 9, shape, generator=source),
        certainty_mean=profile.mean(-1),
        certainty_variance=profile.var(-1),
        usable=torch.rand(shape, generator=source) < 0.9,
        verdict=correct,
        seed=seed + 1,  # a coin with the seed of the marks would know them
    )
    return groups, correct


def settings(feedback: str) -> FeedbackSettings:
    return FeedbackSettings(
        feedback=feedback, num_windows=3, window_size=2, min_stride=1, window_wins=2, peer_win_rate=0.5
    )


def plain_accuracy(outcome: GroupOutcome, correct: torch.Tensor) -> dict[str, float | None]:
    """Accuracies of all, kept and winning responses, and the lift, response by response."""
    counts = {name: [0.0, 0.0] for name in ("all", "kept", "winners", "up", "down")}
    for keeps, advantages, marks in zip(
        outcome.keep.tolist(), outcome.advantage.tolist(), correct.tolist(), strict=True
    ):
        rows = [(k, a, c) for k, a, c in zip(keeps, advantages, marks, strict=True) if c in (0.0, 1.0)]
        moved = {c for k, a, c in rows if k and a != 0}
        for k, a, c in rows:
            tells = k and moved == {0.0, 1.0}
            for name, weight in (
                ("all", 1.0), ("kept", float(k)), ("winners", float(k and a > 0)),
                ("up", max(a, 0.0) * tells), ("down", max(-a, 0.0) * tells),
            ):  # fmt: skip
                counts[name][0] += weight * c
                counts[name][1] += weight
    found = {name: part / whole if whole else None for name, (part, whole) in counts.items()}
    up, down = found.pop("up"), found.pop("down")
    return {**found, "lift": None if up is None or down is None else up - down}


def value(estimate: object) -> float | None:
    return None if estimate is None else estimate.value


@given(st.integers(0, 10_000), st.sampled_from(["sif", "intuitor", "top2", "random_matched", "length_gate"]))
def test_accuracies_are_those_of_a_plain_loop(seed: int, feedback: str) -> None:
    groups, correct = batch(seed)
    outcome = vote(groups, settings(feedback))
    found, wanted = accuracy_numbers(outcome, correct), plain_accuracy(outcome, correct)
    for name, number in wanted.items():
        got = value(found[name])
        assert (got is None) == (number is None), name
        assert number is None or abs(got - number) < 1e-12, name
    numbers = vote_numbers(outcome)
    assert numbers["keep_rate"] == outcome.keep.double().mean()
    assert numbers["winners_per_group"] == ((outcome.advantage > 0) & outcome.keep).sum() / len(correct)


def test_a_rule_that_knows_the_answers_lifts_by_all_and_its_opposite_by_minus_all() -> None:
    groups, correct = batch(1, num_groups=30)
    outcome = vote(groups, settings("verifier"))
    knows = accuracy_numbers(outcome, correct)["lift"]
    errs = accuracy_numbers(outcome, 1 - correct)["lift"]
    assert knows is not None and knows.value == 1 and knows.low > 0.7
    assert errs is not None and errs.value == -1 and errs.high < -0.7


def test_a_coin_lifts_nothing_in_nineteen_of_twenty_probes() -> None:
    inside = []
    for seed in range(200):
        groups, correct = batch(seed, num_groups=30, size=8)
        lift = accuracy_numbers(vote(groups, settings("random_reward")), correct)["lift"]
        assert lift is not None
        inside.append(lift.low <= 0 <= lift.high)
    assert 0.9 <= sum(inside) / len(inside) <= 0.995


@given(st.integers(0, 10_000))
def test_auc_is_that_of_all_pairs_within_groups(seed: int) -> None:
    groups, correct = batch(seed)
    score = (groups.certainty_mean * 4).round()  # ties
    ahead = pairs = 0.0
    for scores, marks, usable in zip(score.tolist(), correct.tolist(), groups.usable.tolist(), strict=True):
        for i in range(len(scores)):
            for j in range(len(scores)):
                if usable[i] and usable[j] and marks[i] == 1 and marks[j] == 0:
                    pairs += 1
                    ahead += 1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
    found = within_group_auc(score, correct, groups.usable)
    assert (found is None) == (pairs == 0)
    assert found is None or abs(found.value - ahead / pairs) < 1e-12
