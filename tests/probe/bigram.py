"""A policy whose certainty and answers are chosen: a bigram table inside a real decoder, and a recipe that probes it.

The first token picks one of four ways to answer, all alike in length. Each way is a chain of its own letters, as good
as deterministic, that ends in the digit 1 or 2. The ways differ in how unlikely all other tokens are, and so in
certainty: `a` is the surest, `d` the least sure.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import torch
import yaml
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CHAINS = {"a": "aeimqA", "b": "bfjnrB", "c": "cgkosC", "d": "dhlptD"}
GAPS = {"a": 20.0, "b": 17.0, "c": 14.0, "d": 11.0}  # nats between the chain's token and every other
TOKENS = ["<pad>", "<eos>", "<unk>", "Q", "1", "2", *(letter for chain in CHAINS.values() for letter in chain)]
LENGTH = 8  # of every response: a chain, the digit, the end


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    base = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def logits(chance_of_1: dict[str, float]) -> torch.Tensor:
    """Logits of the next token by the token before, where way `w` ends in 1 with `chance_of_1[w]`, else in 2."""
    place = {token: number for number, token in enumerate(TOKENS)}
    table = torch.zeros(len(TOKENS), len(TOKENS))
    table[:, place["<eos>"]] = 12.0
    table[place["Q"]] = torch.full((len(TOKENS),), -20.0)
    for way, chain in CHAINS.items():
        table[place["Q"], place[way]] = 0.0
        for before, after in pairwise(chain):
            table[place[before]] = torch.full((len(TOKENS),), -GAPS[way])
            table[place[before], place[after]] = 0.0
        table[place[chain[-1]]] = torch.full((len(TOKENS),), -12.0)
        for digit, chance in (("1", chance_of_1[way]), ("2", 1 - chance_of_1[way])):
            table[place[chain[-1]], place[digit]] = torch.tensor(chance).clamp(min=1e-6).log()
    return table


def save(folder: Path, chance_of_1: dict[str, float]) -> Path:
    """Write the policy: one decoder layer that adds nothing, so that the head sees the last token alone."""
    torch.manual_seed(0)
    size = len(TOKENS) + len(TOKENS) % 2
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(TOKENS), hidden_size=size, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1,
            num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=False, pad_token_id=0,
            bos_token_id=None, eos_token_id=1,
        )
    )  # fmt: skip
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(len(TOKENS), size))
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        model.lm_head.weight[:, : len(TOKENS)] = logits(chance_of_1).T / size**0.5  # what the norm makes of a one
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def recipe(folder: Path, chance_of_1: dict[str, float], num_prompts: int = 30, **settings: object) -> Path:
    """Write policy, prompts (the answer to each is 1) and recipe, and return the recipe."""
    folder.mkdir(exist_ok=True, parents=True)
    prompts = folder / "prompts.jsonl"
    rows = [
        {"problem": "1" * (number // 10) + "2" * (number % 10) + "Q", "answer": "1"} for number in range(num_prompts)
    ]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model": str(save(folder / "policy", chance_of_1)),
        "prompts": str(prompts),
        "monitor": "gsm8k",
        "num_windows": 3,
        "window_size": 2,
        "min_stride": 1,
        "window_wins": 2,
        "peer_win_rate": 0.5,
        "prompts_per_step": 8,
        "num_generations": 8,
        "max_completion_length": 12,
        "probe_batch_size": 32,
        "seed": 3,
        **settings,
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(values))
    return path
