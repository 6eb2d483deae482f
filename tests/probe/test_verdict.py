"""Each word of the verdict, at the thresholds that docs/probe.md states."""

from __future__ import annotations

from typing import Any

import pytest

from sif_trainer.evaluation.estimate import Estimate
from sif_trainer.probe.verdict import judge


def summary(**changes: Any) -> dict[str, Any]:
    """Of a probe without anything odd; `vote` and `responses` take changes by key."""
    values: dict[str, Any] = {
        "feedback": "sif", "num_groups": 64, "num_generations": 8, "prompts_per_step": 64, "num_graded_groups": 64,
        "num_mixed_groups": 40, "num_telling_groups": 30, "accuracy": {"value": 0.4}, "answer_rate": 0.9,
        "kept_per_step": 300.0,
        "vote": {"eligible_rate": 0.95, "keep_rate": 0.6, "winners_per_group": 1.1},
        "responses": {"truncated_rate": 0.01, "num_nonfinite": 0},
    }  # fmt: skip
    for name, value in changes.items():
        part = next((p for p in ("vote", "responses") if name in values[p]), None)
        (values[part] if part else values)[name] = value
    return values


@pytest.mark.parametrize(
    ("changes", "lift", "word", "reason"),
    [
        ({}, Estimate(0.3, 0.01, 0.5), "likely to help", "more often than what it pushes down (+30.0 points"),
        ({}, Estimate(-0.3, -0.5, -0.01), "likely to hurt", "teach the policy its mistakes"),
        ({}, Estimate(0.01, -0.1, 0.1), "no information", "about as often"),
        ({}, Estimate(0.05, -0.15, 0.25), "undecided", "num_probe_prompts=256 would bring"),
        ({"num_telling_groups": 4}, Estimate(0.9, 0.5, 1.0), "undecided", "in only 4 of 64 groups"),
        ({"num_mixed_groups": 0}, None, "no information", "no group has both right and wrong"),
        ({"num_graded_groups": 0}, None, "cannot tell", "without reference answers"),
        ({"winners_per_group": 0.0}, None, "nothing to learn from", "in any of 64 groups"),
    ],
)
def test_words(changes: dict[str, Any], lift: Estimate | None, word: str, reason: str) -> None:
    found = judge(summary(**changes), lift, None)
    assert found.word == word and reason in found.reason


@pytest.mark.parametrize(
    ("agreement", "side"),
    [
        (Estimate(0.3, 0.1, 0.5), "answer more often"),
        (Estimate(-0.3, -0.5, -0.1), "answer less often"),
        (Estimate(0.0, -0.1, 0.1), "answer neither clearly more nor less often"),
    ],
)
def test_without_references_only_agreement_can_be_told(agreement: Estimate, side: str) -> None:
    found = judge(summary(num_graded_groups=0), None, agreement)
    assert found.word == "cannot tell" and side in found.reason


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"eligible_rate": 0.4}, "only 40% of the responses are eligible"),
        ({"kept_per_step": 7.9}, "less than one group"),
        ({"truncated_rate": 0.3}, "cut at max_completion_length"),
        ({"num_nonfinite": 2}, "2 responses have logits that are not finite"),
        ({"num_mixed_groups": 5}, "5 of 64 groups have both right and wrong"),
        ({"answer_rate": 0.3}, "an answer was found in 30%"),
    ],
)
def test_warnings(changes: dict[str, Any], warning: str) -> None:
    lift = Estimate(0.3, 0.1, 0.5)
    assert judge(summary(), lift, None).warnings == []
    (found,) = judge(summary(**changes), lift, None).warnings
    assert warning in found
