from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.evaluation.online import online_measure
from sif_trainer.evaluation.processes import Processes, own_devices
from sif_trainer.tasks.load import load_benchmark

HERE = Path(__file__).parent


@given(st.lists(st.integers()), st.integers(1, 5))
def test_shares_are_a_partition(items, num):
    shares = [Processes(rank, num).share(items) for rank in range(num)]
    assert sorted(item for share in shares for item in share) == sorted(items)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("local_rank", "devices_each", "visible", "expected"),
    [
        (0, 1, None, "0"),
        (3, 1, None, "3"),
        (1, 2, None, "2,3"),
        (1, 2, "4,5,6,7", "6,7"),
        (1, 1, "GPU-a,GPU-b", "GPU-b"),
        (1, 1, "0", ""),
        (0, 1, "", ""),
    ],
)
def test_each_process_has_devices_of_its_own(local_rank, devices_each, visible, expected):
    assert own_devices(local_rank, devices_each, visible) == expected


def test_one_process_joins_nobody(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert Processes.join() == Processes.current() == Processes(0, 1)
    Processes().wait()
    assert Processes().gather([1, 2]) == [1, 2]


def test_validation_shared_by_two_processes_equals_one(run, model, tokenizer, checkpoint, data_dir, tmp_path):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run([*launch, *map(str, (HERE / "share_validation.py", checkpoint, data_dir, tmp_path))])
    problems = load_benchmark("math500", data_dir, limit=7)  # an odd number: the shares differ in size
    expected = online_measure(tokenizer, problems, max_tokens=12, num_samples=2, temperature=1.0)(model)
    for rank in range(2):
        assert json.loads((tmp_path / f"rank{rank}.json").read_text()) == pytest.approx(expected)
