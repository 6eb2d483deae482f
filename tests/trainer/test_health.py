"""Signs of collapse: which histories raise them, and what an alarm does to a run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
from safetensors.torch import load_file

from sif_trainer.runs.folder import RunFolder
from sif_trainer.trainer.health import Health
from sif_trainer.trainer.run import train
from sif_trainer.trainer.signs import THRESHOLDS, signs_of_collapse

HEALTHY = {
    "sif/certainty_mean": 10.0,
    "sif/certainty_variance": 4.0,
    "sif/top_word_share": 0.09,
    "sif/repetition_rate": 0.05,
    "sif/entropy": 1.0,
    "sif/length": 500.0,
    "sif/keep_rate": 0.3,
    "kl": 0.01,
    "sampling/sampling_logp_difference/mean": 0.02,
    "engine/weight_difference": 0.0,
}


OTHERS = {
    "kl": "kl",
    "logp_difference": "sampling/sampling_logp_difference/mean",
    "weight_difference": "engine/weight_difference",
}


def signs(**changes: float | None) -> set[str]:
    later = {**HEALTHY, **{OTHERS.get(name, f"sif/{name}"): value for name, value in changes.items()}}
    return set(signs_of_collapse([HEALTHY] * 5 + [later] * 5, window=5))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"certainty_mean": 12.0}, set()),  # rising certainty alone is what the method does
        ({"certainty_variance": 8.0}, set()),
        ({"certainty_mean": 12.0, "certainty_variance": 8.0}, {"overconfidence"}),
        ({"top_word_share": 0.2}, {"top_word"}),
        ({"repetition_rate": 0.3}, {"repetition"}),
        ({"entropy": 0.1}, {"entropy"}),
        ({"length": 200.0}, {"length"}),
        ({"length": 1100.0}, {"length"}),
        ({"keep_rate": 0.0}, {"keep_rate"}),
        ({"kl": 2.0}, {"kl"}),
        ({"logp_difference": 0.09}, set()),
        ({"logp_difference": 0.2}, {"engine"}),
        ({"weight_difference": 0.01}, {"engine_weights"}),
        ({"entropy": None, "kl": None}, set()),  # not logged: nothing to say
    ],
)
def test_each_sign_has_its_cause(changes: dict[str, float | None], expected: set[str]) -> None:
    assert signs(**changes) == expected


def test_nothing_is_said_before_there_is_something_to_compare() -> None:
    collapsed = {**HEALTHY, "sif/entropy": 0.0}
    assert signs_of_collapse([HEALTHY] * 5 + [collapsed] * 4, window=5) == {}


def test_thresholds_can_be_replaced() -> None:
    later = {**HEALTHY, "sif/length": 450.0}
    assert set(signs_of_collapse([HEALTHY] * 2 + [later] * 2, 2, {**THRESHOLDS, "length_fall": 0.95})) == {"length"}


ALWAYS_ON = {"entropy_fall": 100.0, "length_fall": 100.0}


def run(folder: Path, action: str, **thresholds: float) -> dict[str, Any]:
    trained = tiny.trainer(
        folder, max_steps=26, num_train_epochs=9, save_strategy="steps", save_steps=2, health=action,
        health_thresholds=thresholds or None, learning_rate=1e-4,
    )  # fmt: skip
    return train(trained, RunFolder.open(folder, "train", {"action": action}))


@pytest.mark.parametrize(("action", "last_step"), [("warn", 26), ("stop", 22), ("rollback", 22)])
def test_an_alarm_acts_as_configured(
    tmp_path: Path, action: str, last_step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / action
    summary = run(folder, action, **ALWAYS_ON)  # two signs from the first comparison, step 20, for three steps
    assert summary["num_steps"] == last_step
    assert summary.get("collapsed_at") == (None if action == "warn" else 22)
    (alarm,) = [json.loads(line) for line in (folder / "health.jsonl").read_text().splitlines()]
    assert alarm["step"] == 22 and set(alarm["signs"]) == {"entropy", "length"}
    assert "signs of collapse" in capsys.readouterr().err
    if action == "rollback":
        last, healthy = load_file(folder / "last/model.safetensors"), load_file(folder / "healthy/model.safetensors")
        assert all(last[name].equal(healthy[name]) for name in healthy)
        assert json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 22
        assert not (folder / "healthy" / "optimizer.pt").exists()


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"sif/repetition_rate": 0.5}, []),
        ({"sif/repetition_rate": 0.5, "sif/entropy": 0.1}, [5]),
        ({"sif/certainty_mean": 12.0, "sif/certainty_variance": 8.0}, [5]),
    ],
)
def test_overconfidence_is_alarming_alone_other_signs_by_twos(
    tmp_path: Path, changes: dict[str, float], steps: list[int]
) -> None:
    health = Health("warn", tmp_path, is_main=True, window=2, patience=2)
    later = {**HEALTHY, **changes}
    for step, record in enumerate([HEALTHY, HEALTHY, later, later, later], 1):
        health.on_log(None, SimpleNamespace(global_step=step), SimpleNamespace(), dict(record))
    assert [alarm["step"] for alarm in health.alarms] == steps


def test_a_healthy_run_raises_no_alarm(tmp_path: Path) -> None:
    summary = run(tmp_path / "run", "stop")
    assert summary["num_steps"] == 26 and "collapsed_at" not in summary
    assert not (tmp_path / "run" / "health.jsonl").exists()


@pytest.mark.parametrize("name", ["logp_difference", "weight_difference"])
def test_an_engine_that_drifts_raises_the_alarm_alone(tmp_path: Path, name: str) -> None:
    health = Health("stop", tmp_path, is_main=True, window=2, patience=2)
    control = SimpleNamespace(should_training_stop=False)
    for step in range(8):
        logs = {**HEALTHY, OTHERS[name]: 0.5} if step > 3 else HEALTHY
        health.on_log(None, SimpleNamespace(global_step=step), control, logs=logs)
        assert control.should_training_stop == (step >= 5)
