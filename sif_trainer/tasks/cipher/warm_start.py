"""Train the cipher world's warm-start policy from scratch and measure whether its certainty is fit for voting.

    python -m sif_trainer.tasks.cipher.warm_start --out FOLDER

A core of its own needs two to four minutes; a line is printed every 20 steps. FOLDER then loads with
`AutoModelForCausalLM` and `AutoTokenizer`; `weights/` beside this file is such a folder, made with the default seed.
The policy imitates the three styles of `world`. Labels are smoothed: without that the certainty of a right letter
grows without bound, and noise in the tails of the distribution decides the votes.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sif_trainer.tasks.cipher.premise import measure_premise
from sif_trainer.tasks.cipher.tokenizer import build_tokenizer
from sif_trainer.tasks.cipher.world import CHARACTERS, KEYS, RUN_LENGTH, STYLES, Problem, problems

BATCH_SIZE = 64
PEAK_LEARNING_RATE = 3e-3
RAMP_STEPS = 50
SMOOTHING = 0.01
IGNORED = -100


@dataclass(frozen=True)
class Stage:
    """A part of the warm start.

    Attributes:
        steps: how many batches.
        keys: how many of the keys occur.
        mixture: share of each style.
    """

    steps: int
    keys: int
    mixture: dict[str, float]


# Learning to look at the right letter is quick where the letter need only be copied (key A), and the key is learnt
# quickly afterwards; with all keys from the start neither is learnt within 500 steps. The last mixture is the policy
# that reinforcement learning meets.
STAGES = (
    Stage(steps=60, keys=1, mixture={"careful": 0.6, "basic": 0.3, "wild": 0.1}),
    Stage(steps=240, keys=len(KEYS), mixture={"careful": 0.6, "basic": 0.3, "wild": 0.1}),
    Stage(steps=200, keys=len(KEYS), mixture={"careful": 0.25, "basic": 0.67, "wild": 0.08}),
)


def build_policy(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama of 0.37 million parameters with random weights."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=96,
            intermediate_size=288,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=128,
            # Texts are short: with the usual base of 10,000 most of the rotations would hardly tell positions apart.
            rope_parameters={"rope_type": "default", "rope_theta": 100.0},
            tie_word_embeddings=False,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def batch(
    stream: Iterator[Problem], mixture: dict[str, float], tokenizer: PreTrainedTokenizerFast, rng: random.Random
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw token ids, labels (IGNORED outside the completion) and each label's smoothing, all (BATCH_SIZE, length).

    All prompts have one length and so have all completions: nothing is padded.
    """
    rows, smoothing = [], []
    for problem in islice(stream, BATCH_SIZE):
        style = rng.choices(list(mixture), weights=list(mixture.values()))[0]
        completion = [*tokenizer(STYLES[style](problem, rng)).input_ids, tokenizer.eos_token_id]
        rows.append(tokenizer(problem.prompt).input_ids + completion)
        unsmoothed = RUN_LENGTH if style == "wild" else 0  # the run is to be the most certain of all
        smoothing.append([SMOOTHING] + [0.0] * unsmoothed + [SMOOTHING] * (len(completion) - 1 - unsmoothed))
    ids = torch.tensor(rows)
    prompt_length = ids.size(1) - len(smoothing[0])
    labels = ids.clone()
    labels[:, :prompt_length] = IGNORED
    return ids, labels, torch.nn.functional.pad(torch.tensor(smoothing), (prompt_length, 0))


def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:
    """Cross-entropy against labels smoothed row by row and position by position; returns a scalar."""
    log_probs = logits[:, :-1].float().log_softmax(-1)
    labels, smoothing = labels[:, 1:], smoothing[:, 1:]
    hit = log_probs.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    losses = -(1 - smoothing) * hit - smoothing * log_probs.mean(-1)
    return losses[labels != IGNORED].mean()


def train(policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
    """Teach the policy the three styles in place, stage by stage, printing a line every 20 steps."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.0)
    rng = random.Random(seed)
    total = sum(stage.steps for stage in STAGES)
    step, start = 0, time.monotonic()
    policy.train()
    for number, stage in enumerate(STAGES):
        stream = problems(seed=1_000_000 * (seed + 1) + number, keys=stage.keys)
        for _ in range(stage.steps):
            rate = PEAK_LEARNING_RATE * min(1.0, (step + 1) / RAMP_STEPS) * (1 - 0.97 * step / total)
            optimizer.param_groups[0]["lr"] = rate
            ids, labels, smoothing = batch(stream, stage.mixture, tokenizer, rng)
            loss = smoothed_loss(policy(input_ids=ids).logits, labels, smoothing)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 20 == 0:
                seconds = time.monotonic() - start
                print(f"step {step}/{total}  stage {number + 1}  loss {loss.item():.3f}  {seconds:.0f} s", flush=True)
    policy.eval()


def main() -> None:
    """Train, save and measure."""
    parser = argparse.ArgumentParser(description="Train the warm-start policy of the cipher world.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the policy and its tokenizer")
    parser.add_argument("--seed", type=int, default=0, help="fixes initial weights and problems (default 0)")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    tokenizer = build_tokenizer()
    policy = build_policy(tokenizer)
    print(f"{policy.num_parameters():,} parameters, {len(CHARACTERS)} characters")
    train(policy, tokenizer, arguments.seed)
    policy.save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)
    print(f"saved in {arguments.out}")
    for line in measure_premise(policy, tokenizer).lines():
        print(line)


if __name__ == "__main__":
    main()
