"""The memory forecast against the growth of a process that trains: within 15 % (benchmarks/memory.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("memory_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["memory_benchmark"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures with Linux's high-water mark")
@pytest.mark.parametrize("case", ["weights", "activations", "logits"])
def test_the_forecast_is_within_its_tolerance(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARK.parents[1]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert benchmark().compare([case])
