"""What share of the weights does AdamW still move where they are kept in 16 bits? Seconds, on a CPU.

    python benchmarks/precision.py                     # 100 steps at the paper's learning rate

A million weights of N(0, 0.02), as in a language model, and gradients of random sign. AdamW's step is as large as the
learning rate, whatever the gradient; a step below half the distance between two numbers of a type leaves the weight
as it was. `moved` is the mean way from the start, relative to that of fp32.
"""

from __future__ import annotations

import argparse

import torch


def trained(dtype: torch.dtype, learning_rate: float, num_steps: int, num_weights: int, seed: int) -> torch.Tensor:
    """How far each weight is from its start, (num_weights,) float64."""
    source = torch.Generator().manual_seed(seed)
    start = (0.02 * torch.randn(num_weights, generator=source)).to(dtype)
    weights = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([weights], lr=learning_rate, weight_decay=0.0)
    for _ in range(num_steps):
        weights.grad = (2 * torch.randint(2, (num_weights,), generator=source) - 1).to(dtype)
        optimizer.step()
    return (weights.detach().double() - start.double()).abs()


def main() -> None:
    """Print a row per type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learning-rate", type=float, default=3e-6)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--weights", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    settings = (args.learning_rate, args.steps, args.weights, args.seed)
    exact = trained(torch.float32, *settings).mean()
    print(f"AdamW, {args.steps} steps at {args.learning_rate:g}, {args.weights:,} weights, seed {args.seed}")
    print("| type | changed | moved |\n|-|-|-|")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        way = trained(dtype, *settings)
        changed = (way > 0).double().mean()
        print(f"| {str(dtype).removeprefix('torch.')} | {changed:.1%} | {way.mean() / exact:.1%} |")


if __name__ == "__main__":
    main()
