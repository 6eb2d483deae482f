"""Fixtures for every test: the shared data beside the project, a tiny model, the `sif` command in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
Sif = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data that are not ours to ship: `SIF_SHARED`, or `shared` beside the project."""
    folder = Path(os.environ.get("SIF_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"needs the shared data: no folder {folder} (name it with SIF_SHARED)")
    return folder


@pytest.fixture(scope="session")
def tiny_llama() -> Callable[..., Any]:
    """`tiny_llama(tokenizer, **settings)`: a random Llama of two layers over the tokenizer, the same at every call."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def make(tokenizer: Any, **settings: Any) -> LlamaForCausalLM:
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            num_hidden_layers=2,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            **(sizes | settings),
        )
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture
def sif(tmp_path: Path) -> Sif:
    """`sif("train", "smoke/quickstart", cwd=..., input=..., env={...}, timeout=...)`: run the command, texts captured.

    It runs in the test's temporary folder, with one thread, and finds this checkout's package.
    """

    def run(
        *arguments: str | Path,
        cwd: Path = tmp_path,
        input: str | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-m", "sif_trainer.cli.main", *map(str, arguments)],
            cwd=cwd,
            input=input,
            env={**os.environ, **environment, **(env or {})},
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
