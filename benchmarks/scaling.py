"""The cost model of docs/scaling.md against steps that run here: ratios between steps of different shape.

    python benchmarks/scaling.py             # measured and computed ratios, one thread, small models
    python benchmarks/scaling.py --table     # from 1 to 1,000 GPUs, computed only

Each pair of steps differs in one thing (rows, length, depth, width, gradient checkpointing); the model says how much
longer the second takes. Scoring and update are compared; completions come ready-made.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from sif_trainer.trainer.batch import BatchPlan, plan_batch
from sif_trainer.trainer.cost import DEVICES, Shape, seconds, step_cost
from sif_trainer.trainer.launched import Launch

BASE = {"rows": 4, "length": 192, "layers": 3, "hidden": 384, "checkpointing": False}
CHANGES: dict[str, dict[str, Any]] = {
    "twice the rows": {"rows": 8},
    "twice the length": {"length": 384},
    "twice the layers": {"layers": 6},
    "twice the width": {"hidden": 768},
    "gradient checkpointing": {"checkpointing": True},
}
PROMPT = 32


def model(case: dict[str, Any]) -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=512,
        hidden_size=case["hidden"],
        intermediate_size=11 * case["hidden"] // 4,
        num_hidden_layers=case["layers"],
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    policy = Qwen2ForCausalLM(config)
    if case["checkpointing"]:
        policy.gradient_checkpointing_enable({"use_reentrant": False})
    return policy.train()


def measured(case: dict[str, Any], repeats: int) -> float:
    """Least CPU seconds of what a step does with ready completions: two forwards, then forward and backward."""
    policy = model(case)
    ids = torch.randint(0, 512, (case["rows"], case["length"]))
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        with torch.no_grad():
            policy.model(input_ids=ids, use_cache=False)
            policy.model(input_ids=ids, use_cache=False)
        policy.model(input_ids=ids, use_cache=False).last_hidden_state.square().mean().backward()
        times.append(time.process_time() - start)
    return min(times[1:])


def computed(case: dict[str, Any]) -> float:
    policy = model(case)
    body = sum(p.numel() for p in policy.model.layers.parameters())
    shape = Shape.of(policy.config, body, body, 4)
    plan = BatchPlan(1, case["rows"], 1, case["rows"], 1)
    cost = step_cost(shape, plan, Launch(), PROMPT, case["length"] - PROMPT, checkpointing=case["checkpointing"])
    return cost.score_flops + cost.update_flops


def compare(repeats: int) -> None:
    base_time, base_cost = measured(BASE, repeats), computed(BASE)
    print(f"base: {BASE}, {base_time:.2f} s, {base_cost / base_time / 1e9:.1f} GFLOP/s")
    for name, change in CHANGES.items():
        case = {**BASE, **change}
        took, cost = measured(case, repeats) / base_time, computed(case) / base_cost
        print(f"| {name} | {took:.2f} | {cost:.2f} | {cost / took:.2f} |", flush=True)


def table() -> None:
    """The paper's step (64 x 8, 512 + 3,072 tokens) for 1.5 B parameters, on H100s, at a fixed batch per step."""
    shape = Shape(1_543_714_304, 1_543_714_304, 28, 1536, 2 * 28 * 2 * 128 * 2, 2 * 1_543_714_304)
    print("| GPUs | completions per GPU | generate | score | update | send | step | efficiency |")
    print("|-|-|-|-|-|-|-|-|")
    first = 0.0
    for count in (1, 8, 64, 512):
        launch = Launch(count, max(count // 8, 1), "zero2" if count > 1 else "none")
        plan = plan_batch(64, 8, count, min(4, 512 // count))
        cost = step_cost(shape, plan, launch, 512, 3072)
        parts = seconds(cost, DEVICES["H100"], link=300e9 if count <= 8 else 50e9)
        first = first or sum(parts)
        row = " | ".join(f"{part:.2f}" for part in (*parts, sum(parts)))
        print(f"| {count} | {512 // count} | {row} | {first / count / sum(parts):.0%} |")
    grown = plan_batch(8000, 8, 1000, 4)
    cost = step_cost(shape, grown, Launch(1000, 125, "zero2"), 512, 3072)
    parts = seconds(cost, DEVICES["H100"], link=50e9)
    row = " | ".join(f"{part:.2f}" for part in (*parts, sum(parts)))
    print(f"| 1,000, with 8,000 prompts per step | 64 | {row} | {first * 125 / 1000 / sum(parts):.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if args.table:
        table()
    else:
        compare(args.repeats)


if __name__ == "__main__":
    main()
