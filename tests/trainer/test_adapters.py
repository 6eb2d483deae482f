"""Adapters from recipe keys: a new one, one that is trained further, merged; what contradicts itself is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from sif_trainer.cli.train import train_in
from sif_trainer.policy import load_policy
from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.adapters import AdapterSettings, check_adapter, lora_config, with_adapter

SETTINGS = {
    "learning_rate": 0.1,
    "optim": "sgd",
    "beta": 0.1,
    "warmup_steps": 0,
    "health": "off",
    "lora_target_modules": "all-linear",
}


def adapter_of(model: Any, folder: Path, **settings: Any) -> str:
    """Write a new adapter of rank 2; its settings are then changed in the file, where there are any."""
    saves = settings.pop("saves", None)
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", modules_to_save=saves)
    get_peft_model(model, config).save_pretrained(folder)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    return str(folder)


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return tiny.recipe(tmp_path_factory.mktemp("adapters"), **SETTINGS)


def scores(path: Path) -> list[float]:
    return load_policy(str(path)).score(["say 3"], ["a", "b", "7"])[0]


def test_a_new_adapter_is_trained_merged_and_trained_further(values: dict, tmp_path: Path) -> None:
    first = tmp_path / "first"
    train_in(first, {**values, "lora_r": 2, "merge": True})
    saved = load_file(first / "last" / "adapter_model.safetensors")
    assert saved and all("lora_" in name and "lm_head" not in name for name in saved)
    config = json.loads((first / "last" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (2, 4, 0.0)

    base = AutoModelForCausalLM.from_pretrained(values["model"])
    merged = AutoModelForCausalLM.from_pretrained(first / "merged")
    distance = max((a - b).abs().max() for a, b in zip(merged.parameters(), base.parameters(), strict=True))
    assert distance > 1e-4
    assert scores(first / "merged") == pytest.approx(scores(first / "last"), abs=1e-4)
    assert scores(first / "merged") != pytest.approx(scores(Path(values["model"])), abs=1e-4)

    second = tmp_path / "second"
    train_in(second, {**values, "adapter": str(first / "last"), "seed": 4})
    further = load_file(second / "last" / "adapter_model.safetensors")
    assert set(further) == set(saved)  # the frozen copy that is the reference is not saved with it
    assert max((further[name] - saved[name]).abs().max() for name in saved) > 1e-4
    kl = [json.loads(line)["kl"] for line in (second / "metrics.jsonl").read_text().splitlines()]
    assert kl[0] == pytest.approx(0, abs=1e-6) and kl[1] > 0  # the reference is the adapter as it was at the start

    told = f"set adapter={first / 'last'} model={values['model']}"
    with pytest.raises(UserError, match=re.escape(told)):  # transformers would load it, and nothing could be trained
        train_in(tmp_path / "third", {**values, "model": str(first / "last"), "lora_r": 2, "merge": True})


def test_a_head_that_an_adapter_holds_a_copy_of_is_trained(values: dict, tmp_path: Path) -> None:
    given = adapter_of(AutoModelForCausalLM.from_pretrained(values["model"]), tmp_path / "given", saves=["lm_head"])
    train_in(tmp_path / "run", {**values, "adapter": given})
    before, after = (load_file(path / "adapter_model.safetensors") for path in (Path(given), tmp_path / "run/last"))
    head = "base_model.model.lm_head.weight"
    assert (after[head] - before[head]).abs().max() > 1e-4
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert metrics[0]["kl"] == pytest.approx(0, abs=1e-6) and metrics[1]["kl"] > 0


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"lora_r": 4, "adapter": "there"}, "leave one of them out"),
        ({"lora_r": 0}, "must be at least 1"),
        ({"merge": True}, "merge=true needs an adapter"),
        ({"load_in_4bit": True}, "load_in_4bit=true needs an adapter"),
    ],
)
def test_what_contradicts_itself(settings: dict, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        check_adapter(AdapterSettings(**settings))


def test_folders_that_are_no_lora(tmp_path: Path) -> None:
    for text, complaint in (
        (None, r"cannot be read: Can't find 'adapter_config\.json'"),
        ('{"peft_type": "IA3"}', "is of kind IA3"),
        ("{torn", "cannot be read: Expecting property name"),
        ("[1]", "cannot be read"),
        ('{"peft_type": "NEW"}', "cannot be read: 'NEW'"),
    ):
        if text is not None:
            (tmp_path / "adapter_config.json").write_text(text)
        with pytest.raises(UserError, match=complaint):
            check_adapter(AdapterSettings(adapter=str(tmp_path)))


@pytest.mark.parametrize(
    ("shape", "changed", "complaint"),
    [
        ({"hidden_size": 32}, {}, "cannot be loaded on this model: .*size mismatch"),
        ({}, {"r": 4}, "cannot be loaded on this model: .*size mismatch"),
        ({}, {"modules_to_save": ["lm_head"]}, "its weights lack 'base_model.model.lm_head.weight'"),
    ],
)
def test_an_adapter_of_another_model(values: dict, tmp_path: Path, shape: dict, changed: dict, complaint: str) -> None:
    settings = AdapterSettings(adapter=adapter_of(tiny.model(**shape), tmp_path / "other", **changed))
    with pytest.raises(UserError, match=complaint):
        train_in(tmp_path / "run", {**values, "adapter": settings.adapter})
    with torch.device("meta"), pytest.raises(UserError, match=complaint):  # as the forecast of memory does
        with_adapter(tiny.model(), settings)


def test_layers_that_are_not_there(values: dict, tmp_path: Path) -> None:
    settings = AdapterSettings(lora_r=2, lora_target_modules="nope")
    with pytest.raises(UserError, match="lora_target_modules=nope: Target modules"):
        with_adapter(tiny.model(), settings)
    with pytest.raises(UserError, match="Target modules nope not found"):
        train_in(tmp_path / "run", {**values, "lora_r": 2, "lora_target_modules": "nope"})


def test_all_weights_are_trained_by_default() -> None:
    assert lora_config(AdapterSettings()) is None and not AdapterSettings().trains_adapter


def test_four_bits_need_a_gpu(values: dict, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match=r"load_in_4bit needs a GPU|bitsandbytes"):
        train_in(tmp_path / "run", {**values, "lora_r": 2, "load_in_4bit": True})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_qlora_trains_and_merges(values: dict, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    train_in(tmp_path / "run", {**values, "lora_r": 2, "load_in_4bit": True, "merge": True})
    assert load_file(tmp_path / "run" / "merged" / "model.safetensors")
