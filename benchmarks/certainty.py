"""Speed and memory of the certainty head against TRL's fused log-probability pass, on one input and in one run.

    python benchmarks/certainty.py                      # 4,096 tokens, V = 151,936, fp32; some minutes on a CPU
    python benchmarks/certainty.py --dtype bfloat16 --repeats 3

The passes run in alternation on one model with a single small layer, so that the head is what is measured. A ratio is
ours over theirs: of the fastest repeats, and the median over repeats of neighbouring runs. Memory is what the process
grows by at its peak, in a process of its own for each pass (Linux; on a GPU, PyTorch's own count). The bounds are the
project's: 1.15 times the time of TRL's log-probabilities alone, and a tenth of the fp32 logits.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen2Config
from transformers.utils import ModelOutput
from trl.trainer.utils import add_fused_lm_head

from sif_trainer.certainty.head import add_certainty_head

OURS = "ours: log_probs, entropy, certainty"
THEIRS = {"TRL: log_probs": ("log_probs",), "TRL: log_probs, entropy": ("log_probs", "entropy")}
TIME_BOUND, MEMORY_BOUND = 1.15, 0.1


def passes(args: argparse.Namespace) -> dict[str, Callable[[], ModelOutput]]:
    """Each pass by its name, all on one model and one batch of four rows."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab_size,
        hidden_size=args.hidden_size,
        intermediate_size=args.hidden_size,
        num_hidden_layers=1,
        num_attention_heads=args.hidden_size // 64,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, args.dtype)).to(args.device).eval()
    labels = torch.randint(args.vocab_size, (4, args.tokens // 4 + 1), device=args.device)
    labels[:, 0] = -100  # the first token has no logits that predict it
    input_ids = labels.clamp(min=0)
    own_forward = model.forward
    forwards = {}
    for name, outputs in THEIRS.items():
        model.forward = own_forward
        add_fused_lm_head(model, outputs=outputs)
        forwards[name] = (model.forward, "fused_lm_head")
    model.forward = own_forward
    add_certainty_head(model)
    forwards[OURS] = (model.forward, "token_scores")

    def run(name: str) -> ModelOutput:
        forward, keyword = forwards[name]
        with torch.no_grad():
            result = forward(input_ids=input_ids, labels=labels, **{keyword: True})
        if args.device == "cuda":
            torch.cuda.synchronize()
        return result

    return {name: lambda name=name: run(name) for name in forwards}


def measure_time(args: argparse.Namespace) -> tuple[dict[str, list[float]], float]:
    """Seconds of every repeat, and the largest difference of log-probabilities and entropies from TRL's."""
    run = passes(args)
    results: dict[str, ModelOutput] = {}
    seconds: dict[str, list[float]] = {name: [] for name in run}
    for repeat in range(args.repeats + 1):
        for name, call in run.items():
            start = time.perf_counter()
            results[name] = call()
            if repeat:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    theirs = results["TRL: log_probs, entropy"]
    return seconds, max(_difference(results[OURS][field], theirs[field]) for field in ("log_probs", "entropy"))


def _difference(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def measure_memory(args: argparse.Namespace) -> float:
    """MB that one pass adds to this process at its peak."""
    call = passes(args)[args.memory_of]
    gc.collect()
    if args.device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _resident("VmRSS")
    call()
    return _resident("VmHWM") - before


def _resident(field: str) -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096, help="scored tokens, a multiple of 4")
    parser.add_argument("--vocab-size", type=int, default=151_936)
    parser.add_argument("--hidden-size", type=int, default=896, help="a multiple of 64")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)  # how the processes for memory are called
    args = parser.parse_args()
    if args.memory_of:
        print(measure_memory(args))
        return

    logits = args.tokens * args.vocab_size * 4 / 1e6
    print(
        f"{args.tokens:,} tokens, V = {args.vocab_size:,}, H = {args.hidden_size}, {args.dtype}, {args.device}, "
        f"{torch.get_num_threads()} threads, {args.repeats} repeats; fp32 logits would be {logits:,.0f} MB"
    )
    memory = {}
    for name in (*THEIRS, OURS):
        command = [sys.executable, __file__, *sys.argv[1:], "--memory-of", name]
        memory[name] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seconds, difference = measure_time(args)

    print(f"\n{'':38} {'seconds, min':>12} {'median':>8} {'ours / it, min':>14} {'median':>8} {'extra MB':>9}")
    for name, own in seconds.items():
        ratios = [ours / theirs for ours, theirs in zip(seconds[OURS], own, strict=True)]
        print(
            f"{name:38} {min(own):12.3f} {statistics.median(own):8.3f} {min(seconds[OURS]) / min(own):14.3f} "
            f"{statistics.median(ratios):8.3f} {memory[name]:9.0f}"
        )
    ratio, share = min(seconds[OURS]) / min(seconds["TRL: log_probs"]), memory[OURS] / logits
    print(f"\nlargest difference from TRL's log-probabilities and entropies: {difference:.1e}")
    print(f"time against TRL's log-probabilities alone: {ratio:.3f} (bound: {TIME_BOUND})")
    print(f"memory against the fp32 logits: {share:.4f} (bound, for the default sizes: {MEMORY_BOUND})")


if __name__ == "__main__":
    main()
