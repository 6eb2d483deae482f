"""A SIF step against a stock GRPO step: same model, batch, beta and reward cost, in alternation.

    python benchmarks/step.py [--repeats 5]

Two cases. On policy, TRL needs no old log-probabilities, so that the certainty pass is a forward on top (target: at
most 1.25 x). With two passes per generated batch TRL scores them anyway, and certainty comes out of that pass
(target: at most 1.05 x). Every completion has the same length in both, generated for real. Ratios are of the sums of
whole steps.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from sif_trainer import SIFConfig, SIFTrainer

STEPS = 2  # per turn, and the passes over a generated batch in the second case
NEW_TOKENS = 96


def parts() -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast, Dataset]:
    vocabulary = {f"w{i}": i + 2 for i in range(30_000)} | {"<pad>": 0, "<eos>": 1}
    base = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(vocabulary),
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=8,
            num_attention_heads=8,
            num_key_value_heads=4,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    prompts = Dataset.from_list([{"prompt": " ".join(f"w{i * 7 + j}" for j in range(40))} for i in range(64)])
    return model, tokenizer, prompts


class StepTimes(TrainerCallback):
    """Collects what TRL measures of each step, generation included."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "step_time" in logs:
            self.logs.append(logs)


def make(kind: str, num_iterations: int, folder: str) -> tuple[GRPOTrainer, StepTimes]:
    model, tokenizer, prompts = parts()
    settings: dict[str, Any] = {
        "output_dir": folder,
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        "max_completion_length": NEW_TOKENS,
        "generation_kwargs": {"min_new_tokens": NEW_TOKENS},
        "num_iterations": num_iterations,
        "beta": 0.005,
        "loss_type": "grpo",
        "max_steps": STEPS,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    times = StepTimes()
    common: dict[str, Any] = {"train_dataset": prompts, "processing_class": tokenizer, "callbacks": [times]}
    model.save_pretrained(f"{folder}/initial")
    model = Qwen2ForCausalLM.from_pretrained(f"{folder}/initial")
    if kind == "sif":
        windows = {"num_windows": 10, "window_size": 20, "min_stride": 8, "samples_every": 0}
        trainer: GRPOTrainer = SIFTrainer(model, args=SIFConfig(**settings, **windows), **common)
    else:
        trainer = GRPOTrainer(model, reward_funcs=[number_of_words], args=GRPOConfig(**settings), **common)
        trainer.remove_callback(PrinterCallback)
    return trainer, times


def number_of_words(completions: list[str], **kwargs: Any) -> list[float]:
    return [float(len(set(text.split()))) for text in completions]


def compare(case: str, num_iterations: int, repeats: int, limit: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trainers = {kind: make(kind, num_iterations, f"{folder}/{kind}") for kind in ("stock", "sif")}
        turns: dict[str, list[float]] = {"stock": [], "sif": []}
        for turn in range(repeats + 1):
            for kind in ("stock", "sif") if turn % 2 else ("sif", "stock"):
                trainer, times = trainers[kind]
                times.logs.clear()
                trainer.train()
                if turn:  # the first warms up
                    turns[kind].append(sum(log["step_time"] for log in times.logs))
        last = trainers["sif"][1].logs[0]
    ratios = [sif / stock for sif, stock in zip(turns["sif"], turns["stock"], strict=True)]
    shares = " ".join(f"{name} {last[f'time/{name}_share']:.0%}" for name in ("generate", "score", "update"))
    print(
        f"{case}: stock {statistics.median(turns['stock']):.2f} s, SIF {statistics.median(turns['sif']):.2f} s for "
        f"{STEPS} steps; ratio median {statistics.median(ratios):.3f}, min {min(ratios):.3f}, max {max(ratios):.3f} "
        f"(target {limit}); SIF's first step: {shares}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, {Path(__file__).name}")
    compare("one pass, no old log-probabilities", 1, repeats, 1.25)
    compare("two passes, old log-probabilities scored", 2, repeats, 1.05)


if __name__ == "__main__":
    main()
