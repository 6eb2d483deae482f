"""Recorded pools: both formats, ragged rows, and every input that is refused with its place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.compare import ReplayConfig, compare
from sif_trainer.systems.adap.pools import Recorded, read_pool, solvable, write_pool
from sif_trainer.systems.adap.tables import format_replay

rows = st.lists(
    st.lists(st.tuples(st.none() | st.floats(-5, 5), st.booleans()), min_size=1, max_size=6), min_size=1, max_size=4
)


@settings(max_examples=30, deadline=None)
@given(rows=rows, ending=st.sampled_from(["npz", "jsonl"]))
def test_a_ragged_pool_comes_back_as_it_was(rows, ending, tmp_path_factory):
    pool = [
        Recorded(f"p{n}", np.array([r for r, _ in row], dtype=float), np.array([v for _, v in row]))
        for n, row in enumerate(rows)
    ]
    path = tmp_path_factory.mktemp("pool") / f"pool.{ending}"
    write_pool(pool, path)
    for before, after in zip(pool, read_pool(path), strict=True):
        assert before.id == after.id
        assert np.array_equal(before.rewards, after.rewards, equal_nan=True)
        assert np.array_equal(before.labels, after.labels)


def test_solvable_problems_go_by_their_ids_as_texts():
    pool = [Recorded(name, np.zeros(2), np.array([0, name != "c"], dtype=bool)) for name in ("b", "10", "9", "c")]
    assert [problem.id for problem in solvable(pool)] == ["10", "9", "b"]


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


GOOD = {"id": "a", "rewards": [0.5, None], "labels": [0, 1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the pool is empty"),
        (lines({**GOOD, "labels": [0]}), "line 1: 2 rewards but 1 labels"),
        (lines({"id": "a", "rewards": [1]}), "line 1: no labels"),
        (lines(GOOD, GOOD), "the id a stands there twice"),
        (lines({**GOOD, "labels": [0, 2]}), "line 1: a label is neither 0 nor 1"),
        (lines({**GOOD, "labels": [0, None]}), "a label is neither 0 nor 1"),
        (lines({**GOOD, "rewards": ["x", 1]}), "rewards must be numbers or null"),
        (lines({**GOOD, "rewards": [[1], [2]]}), "2 rewards but 2 labels|rewards must be numbers"),
        (lines({**GOOD, "rewards": [], "labels": []}), "no samples"),
        (lines({**GOOD, "rewards": 3}), "rewards must be numbers"),
        ('{"id": "a", "rewards": [Infinity, 1], "labels": [0, 1]}\n', "a reward is infinite"),
        ("[1]\n", "line 1: expected a JSON object"),
        (lines({**GOOD, "rewards": "12"}), "both in lists"),
    ],
)
def test_json_lines_that_are_refused(text, message, tmp_path):
    path = tmp_path / "pool.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_pool(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": ["a"], "rewards": [[0.5]]}, "no array labels"),
        ({"ids": ["a"], "rewards": [[0.5]], "labels": [[0, 1]]}, "do not fit together"),
        ({"ids": ["a", "b"], "rewards": [[0.5]], "labels": [[1]]}, "do not fit together"),
        ({"ids": ["a"], "rewards": [[0.5]], "labels": [[7]]}, "problem a: a label is neither"),
        ({"ids": ["a"], "rewards": [[np.nan]], "labels": [[-1]]}, "problem a: no samples"),
        ({"ids": np.array([]), "rewards": np.zeros((0, 3)), "labels": np.zeros((0, 3))}, "the pool is empty"),
    ],
)
def test_arrays_that_are_refused(arrays, message, tmp_path):
    path = tmp_path / "pool.npz"
    np.savez(path, **arrays)
    with pytest.raises(UserError, match=message):
        read_pool(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_pool(tmp_path / "pool.npz")
    (tmp_path / "pool.npz").write_text("not an archive")
    with pytest.raises(UserError, match=r"cannot be read as an \.npz file"):
        read_pool(tmp_path / "pool.npz")
    with (tmp_path / "pool.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UserError, match=r"cannot be read as an \.npz file"):
        read_pool(tmp_path / "pool.npz")


def test_a_pool_without_a_correct_sample_is_said_to_be_one():
    pool = [Recorded("a", np.zeros(3), np.zeros(3, dtype=bool))]
    with pytest.raises(UserError, match=r"none of the pool's 3 samples of 1 problem.* is correct"):
        compare(pool, ReplayConfig())


def test_missing_rewards_and_ragged_rows_are_replayed():
    pool = [
        Recorded("a", np.array([np.nan, np.nan, np.nan]), np.array([False, False, True])),
        Recorded("b", np.array([0.3]), np.array([True])),
        Recorded("c", np.array([0.3, 0.1]), np.array([False, False])),
    ]
    summary, records = compare(pool, ReplayConfig(num_permutations=2))
    assert (summary["num_problems"], summary["num_solvable"], len(records)) == (3, 2, 16)
    assert "1 problem(s) without one are left out" in format_replay(summary)
    assert summary["premise"]["num_mixed"] == 1


def test_a_pool_of_correct_samples_tells_nothing_of_the_premise():
    summary, _ = compare([Recorded("a", np.arange(4.0), np.ones(4, dtype=bool))], ReplayConfig(c_ver=(3,)))
    assert summary["premise"] == {"num_mixed": 0}
    assert "nothing tells whether scores rank them" in format_replay(summary)
    assert summary["c_ver"]["3"]["adap"]["sequential"]["num_verifications"] == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"c_ver": (0,)}, "c_ver is 0"),
        ({"c_rew": -1}, "c_rew is -1"),
        ({"c_ver": ()}, "c_ver is empty"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_settings_that_are_refused_before_anything_is_played(settings, message):
    with pytest.raises((UserError, ValueError), match=message):
        ReplayConfig(**settings)
