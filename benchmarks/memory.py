"""The forecast of `sif check` against the peak memory of a run: the same settings, each measured in a fresh process.

    python benchmarks/memory.py [CASE …]   # four small models on a CPU: forecast, measured, and their ratio

What is measured is the growth of the resident set over a process that has its libraries and a trainer of another model
behind it. Every completion has the greatest length.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from sif_trainer import SIFConfig, SIFTrainer
from sif_trainer.trainer.adapters import AdapterSettings, lora_config
from sif_trainer.trainer.factory import TrainRecipe
from sif_trainer.trainer.launched import Launch
from sif_trainer.trainer.memory import MemoryForecast, forecast_memory

TOLERANCE = 0.15
# Model, batch, lengths and adapter; what takes most of the memory differs.
CASES: dict[str, dict[str, Any]] = {
    "weights": {"hidden": 512, "layers": 5, "vocabulary": 6000, "rows": 4, "groups": 2, "prompt": 32, "new": 32},
    "activations": {"hidden": 128, "layers": 6, "vocabulary": 500, "rows": 8, "groups": 2, "prompt": 64, "new": 320},
    "logits": {"hidden": 64, "layers": 2, "vocabulary": 20_000, "rows": 4, "groups": 2, "prompt": 32, "new": 64},
    "generation": {"hidden": 256, "layers": 3, "vocabulary": 500, "rows": 4, "groups": 8, "prompt": 96, "new": 8},
}
CASES["logits"]["lora_r"] = 8
GENERATED = {"weights", "logits", "generation"}  # the other takes its completions ready-made: they are long


def parts(case: dict[str, Any]) -> tuple[Qwen2Config, PreTrainedTokenizerFast, Dataset]:
    words = {f"w{i}": i + 2 for i in range(case["vocabulary"] - 2)} | {"<pad>": 0, "<eos>": 1}
    base = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    config = Qwen2Config(
        vocab_size=case["vocabulary"],
        hidden_size=case["hidden"],
        intermediate_size=11 * case["hidden"] // 4,
        num_hidden_layers=case["layers"],
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    prompts = [{"prompt": " ".join(f"w{i + j}" for j in range(case["prompt"]))} for i in range(case["groups"] * 4)]
    return config, tokenizer, Dataset.from_list(prompts)


def settings(case: dict[str, Any], folder: str) -> SIFConfig:
    return SIFConfig(
        output_dir=folder,
        num_windows=3,
        window_size=4,
        min_stride=1,
        window_wins=2,
        peer_win_rate=0.5,
        prompts_per_step=case["groups"],
        num_generations=8,
        per_device_train_batch_size=case["rows"],
        max_completion_length=case["new"],
        generation_kwargs={"min_new_tokens": case["new"]},
        max_steps=2,
        beta=0.005,
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        samples_every=0,
        health="off",
        max_steps_without_update=0,
    )


def forecast(case: dict[str, Any], config: SIFConfig) -> MemoryForecast:
    recipe = TrainRecipe(prompts="", dtype="float32", lora_r=case.get("lora_r"))
    return forecast_memory(parts(case)[0], recipe, config, config.batch_plan, Launch(), case["prompt"], on_cpu=True)


def train(name: str, case: dict[str, Any], folder: str) -> None:
    config, tokenizer, prompts = parts(case)
    torch.manual_seed(0)
    trainer = SIFTrainer(
        Qwen2ForCausalLM(config),
        args=settings(case, folder),
        train_dataset=prompts,
        processing_class=tokenizer,
        rollout_func=None if name in GENERATED else ready_made(case),
        peft_config=lora_config(AdapterSettings(lora_r=case.get("lora_r"))),
    )
    trainer.train()


def ready_made(case: dict[str, Any]) -> Any:
    def rollouts(prompts: list[str], trainer: Any) -> dict[str, Any]:
        ids = torch.randint(2, case["vocabulary"], (len(prompts), case["new"])).tolist()
        return {
            "prompt_ids": trainer.processing_class(prompts)["input_ids"],
            "completion_ids": ids,
            "logprobs": [[0.0] * case["new"]] * len(prompts),
        }

    return rollouts


def resident(what: str) -> int:
    """Bytes: `VmRSS` now, `VmHWM` the most since the last reset."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return 1024 * int(line.split()[1])


def measure(name: str) -> int:
    """In this process: train a small model to have every library at hand, then the case; return how much it grew."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        small = {"hidden": 16, "layers": 1, "vocabulary": 50, "rows": 8, "groups": 2, "prompt": 8, "new": 8}
        train("weights", {**small, "lora_r": CASES[name].get("lora_r")}, f"{folder}/small")
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        train(name, CASES[name], f"{folder}/case")
        return resident("VmHWM") - before


def measured_in_fresh_process(name: str) -> int:
    # Freed blocks go back to the system at once, so that the resident set is what lives.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return int(json.loads(done.stdout.splitlines()[-1]))


def compare(names: list[str]) -> bool:
    good = True
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            expected = forecast(CASES[name], settings(CASES[name], folder))
        took = measured_in_fresh_process(name)
        ratio = expected.peak / took
        good = good and abs(ratio - 1) <= TOLERANCE
        parts_of = ", ".join(f"{part} {size / 2**20:.0f}" for part, size in expected.rows if size)
        print(
            f"{name:<12} forecast {expected.peak / 2**20:.0f} MiB, measured {took / 2**20:.0f} MiB, ratio {ratio:.2f}"
        )
        print(f"             {parts_of}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return 0
    return 0 if compare(args.cases) else 1


if __name__ == "__main__":
    sys.exit(main())
