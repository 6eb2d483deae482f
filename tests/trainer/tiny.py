"""A tiny random policy with a character tokenizer, and settings under which it can vote."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.trainer import SIFTrainer

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 "
VOTE = {  # settings under which its short responses can vote
    "num_windows": 3,
    "window_size": 2,
    "min_stride": 1,
    "window_wins": 2,
    "peer_win_rate": 0.5,
    "prompts_per_step": 4,
    "num_generations": 4,
    "max_completion_length": 12,
}


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *CHARACTERS])}
    base = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def model(seed: int = 0, **settings: Any) -> Qwen2ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen2Config(
        **{
            "vocab_size": len(CHARACTERS) + 3,
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "max_position_embeddings": 128,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": 1,
            "initializer_range": 0.3,
            **settings,
        }
    )
    return Qwen2ForCausalLM(config)


def recipe(folder: Path, **settings: Any) -> dict[str, Any]:
    """The recipe of a short run; policy and prompts, each with its answer, are written into the folder."""
    model().save_pretrained(folder / "policy")
    tokenizer().save_pretrained(folder / "policy")
    rows = [json.dumps({"problem": f"say {i}", "answer": str(i)}) for i in range(12)]
    (folder / "prompts.jsonl").write_text("".join(f"{row}\n" for row in rows))
    files = {"model": str(folder / "policy"), "prompts": str(folder / "prompts.jsonl")}
    return {**files, **VOTE, "max_steps": 2, "save_steps": 1, "seed": 3, **settings}


def prompts(count: int = 12) -> Dataset:
    return Dataset.from_list(
        [{"id": f"p{i}", "prompt": f"say {i} " + "x" * (i % 5), "answer": str(i)} for i in range(count)]
    )


def pairs(count: int = 6) -> Dataset:
    """Questions, each followed by its rephrasing."""
    rows = [
        (f"p{i}{mark}", f"{word} {i}") for i in range(count) for mark, word in (("", "say"), ("#rephrased", "tell"))
    ]
    return Dataset.from_list([{"id": name, "prompt": text} for name, text in rows])


def config(folder: Path, **settings: Any) -> SIFConfig:
    return SIFConfig(
        **{
            "output_dir": str(folder),
            **VOTE,
            "learning_rate": 1e-2,
            "beta": 0.1,
            "warmup_steps": 0,
            "max_steps": 3,
            "seed": 7,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "disable_tqdm": True,
            "save_strategy": "no",
            **settings,
        }
    )


def trainer(
    folder: Path,
    policy: Any = None,
    dataset: Dataset | None = None,
    reward_funcs: Any = None,
    rollout_func: Any = None,
    answers: Any = None,
    **settings: Any,
) -> SIFTrainer:
    return SIFTrainer(
        policy or model(),
        reward_funcs=reward_funcs,
        args=config(folder, **settings),
        train_dataset=dataset or prompts(),
        processing_class=tokenizer(),
        rollout_func=rollout_func,
        answers=answers,
    )


class FirstLetter:
    """An answer reader: the answer is the first character, and letters are told from digits only."""

    def extract(self, text: str) -> str | None:
        return text.strip()[:1] or None

    def classes(self, groups: Any) -> list[list[int | None]]:
        return [[None if answer is None else int(answer.isdigit()) for answer in group] for group in groups]


def weights(trained: SIFTrainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trained.model.parameters()])


def fixed_rollouts(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """A `rollout_func` whose completions depend on the prompt and the place in its group alone."""
    seen: dict[str, int] = {}
    prompt_ids, completion_ids = [], []
    for prompt in prompts:
        member = seen[prompt] = seen.get(prompt, -1) + 1
        source = random.Random(f"{prompt}/{member}")
        length = source.randrange(1, 11)  # some too short to be eligible
        prompt_ids.append(trainer.processing_class(prompt)["input_ids"])
        completion_ids.append([source.randrange(3, 40) for _ in range(length)] + [1])
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": completion_ids,
        "logprobs": [[0.0] * len(ids) for ids in completion_ids],
    }
