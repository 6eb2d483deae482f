"""A tiny random policy that answers in digits, and benchmark files of easy numbers, on disk for `sif eval`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = "0123456789 .abcdefghijklmnopqrstuvwxyz"
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %} a {% if quiet %}q {% endif %}"


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For processes that run `sif`: this checkout, one thread, no network."""
    root = str(Path(__file__).parents[2])
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": root,
        "HF_HUB_OFFLINE": "1",
    }


@pytest.fixture(scope="session")
def run(environment: dict[str, str]) -> Callable[[list[str]], str]:
    """`run(arguments)`: Python with those arguments, to its good end; returns what it printed."""

    def run(arguments: list[str]) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def kill_at(environment: dict[str, str]) -> Callable[[int, list[str], Path], None]:
    """`kill_at(n, arguments, file)`: the same, but killed without warning once the file has n lines."""

    def kill_at(num_lines: int, arguments: list[str], file: Path) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([sys.executable, *arguments], env=environment, **quiet)
        while not file.exists() or file.read_bytes().count(b"\n") < num_lines:
            assert process.poll() is None, f"ended with {process.returncode} before it had written {num_lines} lines"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    return kill_at


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate(["<eos>", "<unk>", *CHARACTERS])}
    base = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    base.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, pad_token="<eos>", eos_token="<eos>", unk_token="<unk>")
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


@pytest.fixture(scope="session")
def model(tiny_llama: Callable[..., Any], tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Mostly digits, blanks and ends of text, so that some answers are right, some wrong and some cut."""
    model = tiny_llama(tokenizer, max_position_embeddings=256, initializer_range=0.2, attention_dropout=0.1)
    with torch.no_grad():
        model.lm_head.weight[2 + len("0123456789 ") :] *= 0.2
        model.lm_head.weight[: 2 + len("0123456789 ")] *= 1.5
    return model


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, model: Any, tokenizer: Any) -> Path:
    """The tiny policy on disk."""
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve problems each of gsm8k and math500, whose answers are digits; one of gsm8k is very long."""
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(0)
    for name, file in (("gsm8k", "gsm8k_test.jsonl"), ("math500", "math500.jsonl")):
        rows = []
        for number in range(12):
            words = "".join(rng.choice("abcdef ") for _ in range(rng.randint(5, 20)))
            rows.append({"id": f"{name}-{number}", "problem": words, "answer": str(rng.randint(0, 9))})
        if name == "gsm8k":
            rows[7]["problem"] = "long " * 60
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
