from __future__ import annotations

import pytest

from sif_trainer.systems.jointcore.noise import NoiseConfig, margin, noisy, study, sure
from sif_trainer.systems.jointcore.search import drive
from sif_trainer.systems.jointcore.selectors import SELECTORS


def test_margin_is_walds():
    assert margin(0.0, 0.01) == 1
    assert margin(0.1, 0.01) == 3  # 0.9^3 / (0.9^3 + 0.1^3) = 0.9986, with two answers 0.9878
    assert margin(0.2, 0.01) == 4


def test_noise_flips_as_often_as_it_says_and_repeats_itself(model):
    task = model[0]
    judge, again = noisy(task, 0.2), noisy(task, 0.2)
    answers = [judge(task.full) for _ in range(5000)]
    assert answers == [again(task.full) for _ in range(5000)]
    assert abs(answers.count(False) / 5000 - 0.2) < 0.02


def test_without_noise_asking_until_sure_changes_nothing(model):
    for task in model[::40]:
        plain = drive(SELECTORS["galloping"](task, 64), task.sufficient)
        assert drive(sure(SELECTORS["galloping"](task, 64), task.full, 0.0, 0.01, 64), task.sufficient) == plain


def test_asking_until_sure_holds_up_where_asking_once_does_not(model):
    config = NoiseConfig(flip_rates=(0.1,), budgets=(64,), methods=("jointcore_cost_ordered", "galloping"))
    rows = {(row["method"], row["asking"]): row for row in study(model[::4], config)}
    for method in config.methods:
        assert rows[method, "once"]["sufficiency_rate"] < 0.85 < 0.95 < rows[method, "until sure"]["sufficiency_rate"]
    assert all(row["evaluations"] <= 64 for row in rows.values())


def test_a_budget_that_ends_early_keeps_everything(model):
    task = model[0]
    found = drive(sure(SELECTORS["galloping"](task, 9), task.full, 0.2, 0.01, 2), task.sufficient)
    assert (found.kept, found.exhausted, found.evaluations) == (task.full, True, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flip_rates": (0.5,)}, "says nothing"),
        ({"budgets": ()}, "at least 1"),
        ({"methods": ("gallop",)}, "galloping"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        NoiseConfig(**settings)
