"""What is read out of training runs' records, on records of which the answer is known."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.analysis import training
from sif_trainer.analysis.training import Run


def metrics(num_steps: int, **values) -> list[dict]:
    return [{"step": step, **{name: f(step) for name, f in values.items()}} for step in range(1, num_steps + 1)]


def run(**parts) -> Run:
    return Run(**{"label": "r", "metrics": [], "samples": [], "validation": [], **parts})


@given(st.lists(st.text("ab ,.X\n", max_size=12), min_size=1, max_size=4))
def test_word_use_against_a_count_by_hand(texts: list[str]) -> None:
    words = [w for text in texts for w in "".join(c if c.isalnum() else " " for c in text.lower()).split()]
    found = training.word_use([{"step": 3, "completion": text} for text in texts])
    if not words:
        assert found == {}
        return
    same = sum(one == other for one in words for other in words) / len(words) ** 2
    assert found[3]["concentration"] == pytest.approx(same)
    assert found[3]["share"] == max(Counter(words).values()) / len(words)
    assert words.count(found[3]["top_word"]) / len(words) == found[3]["share"]


def test_kept_against_all_leaves_out_steps_that_kept_nothing() -> None:
    def kept(step: int) -> float | None:
        return None if step % 2 == 0 else 0.5 + 0.001 * step

    rows = metrics(200, **{"monitor/math/all": lambda step: 0.5, "monitor/math/kept": kept})
    (row,) = training.kept_against_all(rows)
    assert row["monitor"] == "math"
    odd = range(1, 200, 2)
    expected = {"early": odd[:10], "mid": odd[45:55], "last": odd[90:]}
    for name, steps in expected.items():
        found = row["moments"][name]
        assert found["steps"] == [steps[0], steps[-1]]
        assert found["all"] == 0.5 and found["kept"] == pytest.approx(0.5 + 0.001 * sum(steps) / 10)
        assert found["difference"]["mean"] == pytest.approx(0.001 * sum(steps) / 10)
        assert found["difference"]["low"] < found["difference"]["mean"] < found["difference"]["high"]
    assert len(row["curve"]) == 100


def test_kept_against_all_of_a_few_steps() -> None:
    (row,) = training.kept_against_all(metrics(2, **{"monitor/a/all": float, "monitor/a/kept": float}))
    assert all(part["steps"] == [1, 2] for part in row["moments"].values())
    assert training.kept_against_all(metrics(2, **{"monitor/a/kept": lambda s: None, "monitor/a/all": float})) == []


def test_proxy_beside_accuracy_is_of_the_steps_before_the_measurement() -> None:
    measured = [{"step": step, "accuracy": step / 100} for step in (0, 2, 5)]
    found = training.proxy_against_accuracy(
        run(metrics=metrics(7, **{"sif/certainty_mean": float}), validation=measured)
    )
    assert found == [
        {"step": 2, "certainty_mean": 1.5, "accuracy": 0.02},
        {"step": 5, "certainty_mean": 4.0, "accuracy": 0.05},
    ]


def test_moments_are_taken_around_the_first_best_and_last_step() -> None:
    measured = [{"step": step, "accuracy": a} for step, a in ((0, 0.9), (40, 0.5), (60, 0.5), (100, 0.1))]
    samples = [{"step": step, "completion": f"w{step} w{step} x"} for step in (1, 41, 91)]
    names = ("sif/certainty_mean", "sif/certainty_variance", "sif/top_word_share")
    trained = run(metrics=metrics(100, **dict.fromkeys(names, float)), samples=samples, validation=measured)
    found = training.moments(trained, training.word_use(samples))
    assert [(row["moment"], row["step"]) for row in found] == [("first", 1), ("best", 40), ("last", 100)]
    assert [row["certainty_mean"] for row in found] == [5.5, 39.5, 95.5]
    assert [row["top_word"] for row in found] == ["w1", "w41", "w91"]
    assert [row["concentration"] for row in found] == pytest.approx([5 / 9] * 3)


def test_what_a_run_lacks_is_said() -> None:
    bare = training.analyze(run(metrics=[{"step": 1, "loss": 0.0}]))
    assert len(bare["lacks"]) == 4 and all(line.startswith("r has no ") for line in bare["lacks"])
    assert [row["moment"] for row in bare["moments"]] == ["first", "last"]  # without validation none is best
    measured = metrics(3, **dict.fromkeys(("sif/certainty_variance", "sif/certainty_mean"), math.sqrt))
    whole = training.analyze(
        run(
            metrics=[*measured, {"step": 4, "monitor/m/all": 0.5, "monitor/m/kept": 0.75}],
            samples=[{"step": 1, "completion": "a"}],
            validation=[{"step": 3, "accuracy": 0.5}],
        )
    )
    assert whole["lacks"] == [] and whole["curves"]["m, kept minus all"] == [(4, 0.25)]
