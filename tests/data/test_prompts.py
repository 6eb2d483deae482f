"""Prompts from every source: ids and messages only, filtered by length and counted, never cut."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sif_trainer.data.prompts import PromptSettings, load_prompts
from sif_trainer.data.sources import read_rows
from sif_trainer.runs.errors import UserError

TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    base = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    base.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")  # a token per character
    return PreTrainedTokenizerFast(tokenizer_object=base, unk_token="?")


def write(path: Path, rows: list[dict]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def test_what_is_too_long_is_left_out_and_counted(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    source = write(tmp_path / "p.jsonl.gz", [{"question": "x" * n, "answer": "secret"} for n in (3, 9, 5)])
    found = load_prompts(PromptSettings(prompts=source, max_prompt_length=5), tokenizer)
    assert found.dataset.column_names == ["id", "prompt"]
    assert list(found.dataset["prompt"]) == ["xxx", "xxxxx"]
    assert list(found.dataset["id"]) == ["0", "2"]
    assert (found.num_read, found.num_too_long, found.max_length) == (3, 1, 5)
    assert "1 left out as too long" in found.explain()


def test_a_chat_template_is_used_where_there_is_one(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    source = write(tmp_path / "p.jsonl", [{"id": "a", "problem": "2+2"}])
    settings = PromptSettings(prompts=source, system_prompt="Think.", prompt_suffix=" = ?")
    assert load_prompts(settings, tokenizer).rendered == "Think.2+2 = ?"
    tokenizer.chat_template = TEMPLATE
    found = load_prompts(settings, tokenizer)
    assert found.rendered == "[system]Think.[user]2+2 = ?[assistant]"
    assert found.dataset[0]["prompt"][1] == {"role": "user", "content": "2+2 = ?"}
    assert found.max_length == len(found.rendered)


def test_messages_are_taken_as_they_are(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [{"role": "user", "content": "hello"}]
    source = write(tmp_path / "p.jsonl", [{"prompt": messages}])
    with pytest.raises(UserError, match="row 1: the prompt is a chat"):
        load_prompts(PromptSettings(prompts=source), tokenizer)
    tokenizer.chat_template = TEMPLATE
    assert load_prompts(PromptSettings(prompts=source), tokenizer).dataset[0]["prompt"] == messages


def test_sources_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two rows have the id 'a'"):
        read_rows(write(tmp_path / "twice.jsonl", [{"id": "a"}, {"id": "a"}]))
    with pytest.raises(UserError, match="no rows"):
        read_rows(write(tmp_path / "empty.jsonl", []))
    with pytest.raises(UserError, match="no split 'dev'"):
        read_rows("cipher", split="dev")


def test_the_embedded_world_gives_the_same_rows_again_and_splits_apart() -> None:
    train, test = read_rows("cipher", "train", 50), read_rows("cipher", "test", 50)
    assert train == read_rows("cipher", "train", 50)
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    assert train != read_rows("cipher", "train", 50, seed=1)


def test_a_procedural_set() -> None:
    pytest.importorskip("reasoning_gym", reason="needs the package reasoning-gym")
    rows = read_rows("reasoning_gym:chain_sum", limit=3, seed=5)
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert rows == read_rows("reasoning_gym:chain_sum", limit=3, seed=5)
    with pytest.raises(UserError, match="did you mean 'chain_sum'"):
        read_rows("reasoning_gym:chain_sums")


def test_a_benchmark_as_a_source(shared: Path) -> None:
    rows = read_rows("benchmark:aime2025", data_dir=str(shared / "data" / "benchmarks"))
    assert len(rows) == 30
    assert {"id", "prompt", "answer"} <= set(rows[0])
