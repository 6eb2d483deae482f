"""What a step reports: by hand on two groups, and every key explained in docs/metrics.md."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import tiny
import torch

from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.trainer.metrics import answer_metrics, monitor_metrics, verdict_metrics, vote_metrics
from sif_trainer.trainer.scoring import ResponseStatistics

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
NAN = math.nan

# The first group is decided, with one response that is not eligible; the second is not.
OUTCOME = GroupOutcome(
    reward=torch.tensor([[1.0, 0.0, 0.0, NAN], [0.0, 0.0, NAN, NAN]], dtype=torch.float64),
    advantage=torch.tensor([[1.0, -0.5, -0.5, 0.0], [0.0] * 4], dtype=torch.float64),
    keep=torch.tensor([[True, True, True, False], [False] * 4]),
    peer_wins=torch.tensor([[2, 1, 0, 0], [0] * 4]),
    margin=torch.tensor([4.0, NAN], dtype=torch.float64),
)


def statistics(finite: list[bool]) -> ResponseStatistics:
    def column(*values: float) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    return ResponseStatistics(
        profile=torch.zeros(8, 3, dtype=torch.float64),
        length=column(10, 20, 30, 40, 50, 60, 70, 80),
        certainty_mean=column(1, 2, 3, 4, 5, 6, 7, NAN),
        certainty_variance=column(2, 4, 6, 8, 10, 12, 14, NAN),
        certainty_band=column(*[NAN] * 8),
        entropy_mean=column(1, 1, 1, 1, 2, 2, 2, NAN),
        log_prob_mean=column(*[-1] * 8),
        step_confidence=column(*[NAN] * 8),
        gradient_norm=column(*[NAN] * 8),
        finite=torch.tensor(finite),
        truncated=torch.tensor([True] + [False] * 7),
        repetition_rate=column(0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5),
        top_word_share=column(*[0.1] * 4, *[0.3] * 4),
        prompt_hash=column(*[1] * 4, *[2] * 4),
    )


def test_a_step_by_hand() -> None:
    metrics = vote_metrics(statistics([True] * 7 + [False]), OUTCOME)
    assert metrics == pytest.approx(
        {
            "sif/eligible_rate": 5 / 8,
            "sif/keep_rate": 3 / 8,
            "sif/group_keep_rate": 1 / 2,
            "sif/winners_per_group": 1 / 2,
            "sif/window_margin": 4.0,
            "sif/advantage_abs": 2 / 3,
            "sif/certainty_mean": 4.0,
            "sif/certainty_variance": 8.0,
            "sif/entropy": 10 / 7,
            "sif/length": 45.0,
            "sif/truncated_rate": 1 / 8,
            "sif/repetition_rate": 1 / 4,
            "sif/top_word_share": 0.2,
            "sif/num_nonfinite": 1.0,
        }
    )


def test_where_there_is_nothing_to_average_there_is_nan_and_no_zero() -> None:
    nothing = GroupOutcome(
        reward=torch.full_like(OUTCOME.reward, NAN),
        advantage=torch.zeros_like(OUTCOME.advantage),
        keep=torch.zeros_like(OUTCOME.keep),
        peer_wins=torch.zeros_like(OUTCOME.peer_wins),
        margin=torch.full_like(OUTCOME.margin, NAN),
    )
    metrics = vote_metrics(statistics([False] * 8), nothing)
    empty = {name for name, value in metrics.items() if math.isnan(value)}
    assert empty == {
        "sif/window_margin",
        "sif/advantage_abs",
        "sif/certainty_mean",
        "sif/certainty_variance",
        "sif/entropy",
    }
    assert metrics["sif/eligible_rate"] == metrics["sif/keep_rate"] == 0
    assert metrics["sif/num_nonfinite"] == 8


def test_monitors_compare_winners_and_kept_with_all_responses() -> None:
    right = torch.tensor([1.0, 0.0, 1.0, NAN, 0.0, 0.0, 0.0, 0.0])
    silent = torch.full((8,), NAN)
    metrics = monitor_metrics({"right": right, "silent": silent}, OUTCOME)
    expected = {"all": 2 / 7, "kept": 2 / 3, "winners": 1.0}
    assert {name: metrics[f"monitor/right/{name}"] for name in expected} == pytest.approx(expected)
    assert all(math.isnan(metrics[f"monitor/silent/{name}"]) for name in expected)


def test_how_often_a_reward_is_what_the_monitor_says() -> None:
    """Label and reward accuracy (spec 4.2) by hand: two groups have a winner, one of two and one of one are right."""
    reward = torch.tensor([[1.0, 1.0, 0.0, NAN], [0.0, 0.0, 1.0, 0.0], [0.0] * 4], dtype=torch.float64)
    outcome = GroupOutcome(
        reward, advantage=reward, keep=~reward.isnan(), peer_wins=reward.long(), margin=torch.zeros(3)
    )
    right = torch.tensor([1.0, 0.0, 0.0, 1.0, NAN, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    metrics = verdict_metrics({"right": right}, outcome)
    expected = {"monitor/right/reward_accuracy": 7 / 10, "monitor/right/label_accuracy": (1 / 2 + 1) / 2}
    assert metrics == pytest.approx(expected)
    continuous = GroupOutcome(reward / 3, outcome.advantage, outcome.keep, outcome.peer_wins, outcome.margin)
    assert verdict_metrics({"right": right}, continuous) == {}


def test_what_the_answers_look_like() -> None:
    answer = torch.tensor([[0, 0, 1, -1], [0, 1, 1, 0], [-1, -1, -1, -1]])
    assert answer_metrics(answer) == pytest.approx(
        {
            "answers/given_rate": 7 / 12,
            "answers/num_distinct": 4 / 3,
            "answers/majority_share": (0.5 + 0.5 + 0) / 3,
            "answers/tied_rate": 1 / 3,
        }
    )
    assert answer_metrics(None) == {}


def length(completions: list[str], **kwargs: object) -> list[float]:
    return [float(len(text) > 9) for text in completions]


def documented() -> set[str]:
    """Keys in the first column of the tables, `<name>` standing for any name."""
    rows = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def test_every_key_of_a_run_is_documented_and_every_documented_key_is_written(tmp_path: Path) -> None:
    records = []
    for rule, answers in (("sif", None), ("majority", tiny.FirstLetter())):
        settings = {"rollout_func": tiny.fixed_rollouts, "max_steps": 2, "feedback": rule, "answers": answers}
        tiny.trainer(tmp_path / rule, reward_funcs=[length], **settings).train()
        lines = (tmp_path / rule / "metrics.jsonl").read_text().splitlines()
        records += [json.loads(line) for line in lines]
    written = {key for record in records for key in record}
    here = {key for key in documented() if not key.startswith(("engine/", "sampling/"))}  # those: test_vllm.py
    patterns = {key: re.compile(re.escape(key).replace("<name>", "[^/]+")) for key in here}
    assert {key for key in written if not any(p.fullmatch(key) for p in patterns.values())} == set()
    assert {key for key, p in patterns.items() if not any(p.fullmatch(name) for name in written)} == set()
