"""What a study's runs come to: quantities of a curve, means over seeds, paired differences; from folders as well."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.analysis.study import compare, quantities, study_results
from sif_trainer.runs.errors import UserError


def curve(*accuracies: float, every: int = 10) -> list[dict]:
    return [{"step": k * every, "accuracy": value} for k, value in enumerate(accuracies)]


def test_quantities_of_a_run() -> None:
    assert quantities(curve(0.9, 0.4, 0.7, 0.7, 0.1), [10, 30]) == {
        "before": 0.9,  # not a peak: nothing had been trained
        "peak": 0.7,
        "peak step": 20,  # the first of two equals
        "step 10": 0.4,
        "step 30": 0.7,
        "final": 0.1,
        "drop": pytest.approx(0.6),
    }
    stopped = quantities(curve(0.3, 0.5), [10, 30])
    assert (stopped["step 30"], stopped["final"], stopped["drop"]) == (0.5, 0.5, 0.0)


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=3, max_size=5))
def test_means_and_paired_differences(accuracies: list[list[float]]) -> None:
    first = {seed: curve(*values) for seed, values in enumerate(accuracies)}
    second = {seed: curve(*values[::-1]) for seed, values in enumerate(accuracies) if seed != 1}
    found = compare({"sif": first, "other": second, "none": {}}, "sif", [10, 500])
    assert found["none"] == {"seeds": []} and found["other"]["seeds"] == [s for s in first if s != 1]
    assert "step 500" not in found["sif"]  # no run is that long
    finals = [values[0] for seed, values in enumerate(accuracies) if seed != 1]
    assert found["other"]["final"]["mean"] == pytest.approx(statistics.fmean(finals))
    gaps = [values[0] - values[3] for seed, values in enumerate(accuracies) if seed != 1]
    difference = found["other"]["final"]["difference"]
    assert difference["mean"] == pytest.approx(statistics.fmean(gaps)) and difference["num"] == len(gaps)
    assert difference["low"] <= difference["mean"] <= difference["high"]
    assert found["sif"]["final"]["difference"] is None


def test_pairs_have_a_smaller_interval_than_their_arms_where_seeds_differ_alike() -> None:
    sif = {seed: curve(0, 0.1 * seed) for seed in (1, 2, 3)}
    other = {seed: curve(0, 0.1 * seed + 0.02) for seed in (1, 2, 3)}
    found = compare({"sif": sif, "other": other}, "sif", [])["other"]["final"]
    assert found["difference"]["high"] - found["difference"]["low"] < 1e-9 < found["high"] - found["low"]
    assert found["difference"]["mean"] == pytest.approx(0.02)


def test_only_finished_runs_count(tmp_path: Path) -> None:
    study = {"reference": "sif", "shown_steps": [], "tables": {}, "arms": {"sif": {}, "top2": {"feedback": "top2"}}}
    (tmp_path / "study.json").write_text(json.dumps(study))
    for arm, seed, finished in (("sif", 2, True), ("sif", 10, False), ("sif", 1, True), ("top2", 1, False)):
        folder = tmp_path / arm / f"seed{seed}"
        folder.mkdir(parents=True)
        (folder / "validation.jsonl").write_text("".join(json.dumps(r) + "\n" for r in curve(0.1, 0.1 * seed)))
        if finished:
            (folder / "summary.json").write_text("{}")
    failures = [("top2", 1, "no"), ("top2", 3, "never began"), ("sif", 1, "at first"), ("sif", 1, None)]
    lines = [json.dumps({"arm": a, "seed": s, "failed": f}) for a, s, f in failures]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")
    found = study_results(tmp_path)
    assert found["quantities"]["sif"]["seeds"] == [1, 2] and found["quantities"]["top2"] == {"seeds": []}
    assert found["quantities"]["sif"]["final"]["mean"] == pytest.approx(0.15)
    states = {(run["arm"], run["seed"]): (run["finished"], run["failed"]) for run in found["runs"]}
    assert states == {
        ("sif", 1): (True, None),
        ("sif", 2): (True, None),
        ("sif", 10): (False, None),
        ("top2", 1): (False, "no"),
        ("top2", 3): (False, "never began"),
    }


def test_a_folder_without_a_study(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no study yet"):
        study_results(tmp_path)
