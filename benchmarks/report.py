"""The page of a large run: its size, the time and the memory it takes to write.

    python benchmarks/report.py             # 115 steps, 58,880 completions of 400 tokens, all recorded: half a minute

The run folder is made up: as many records as a run of the paper's size has that samples every group of every step
(64 prompts of 8 responses). Time and memory are those of a process of its own.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sif_trainer.runs.folder import RunFolder

NUM_STEPS, NUM_GROUPS, NUM_GENERATIONS, NUM_TOKENS, NUM_WINDOWS = 115, 64, 8, 400, 10
WORDS = [" the", " answer", " of", " a", " sum", " is", " 12", " we", " see", " that", "\n", ".", " so", " x", " ="]


def make_run(path: Path, num_steps: int, num_groups: int, num_tokens: int) -> int:
    """Write a finished training run with every completion in its samples, and return how many there are."""
    rng = random.Random(0)
    run = RunFolder.open(path, "train", {"model": "made/up", "feedback": "sif", "window_wins": 8}, seed=0)
    metrics, validation = run.records("metrics"), run.records("validation")
    for step in range(1, num_steps + 1):
        names = ("eligible_rate", "keep_rate", "certainty_mean", "certainty_variance", "entropy", "length")
        metrics.append({"step": step, **{f"sif/{name}": rng.random() for name in names}})
        if step % 10 == 1:
            level = {"accuracy": 0.5, "accuracy_low": 0.4, "accuracy_high": 0.6}
            validation.append({"step": step - 1, **level, "greedy": 0.5, "truncated_rate": 0.0, "length": num_tokens})
    texts = [[rng.choice(WORDS) for _ in range(num_tokens)] for _ in range(64)]
    scores = [[round(rng.uniform(1, 25), 2) for _ in range(num_tokens)] for _ in range(64)]
    with (path / "samples.jsonl").open("w", encoding="utf-8") as file:
        for step in range(1, num_steps + 1):
            for group in range(num_groups):
                for member in range(NUM_GENERATIONS):
                    text, certainty = rng.choice(texts), rng.choice(scores)
                    record = {
                        "step": step, "id": f"p{step}-{group}", "group": group, "prompt": f"Problem {step} {group}",
                        "completion": "".join(text), "length": num_tokens, "truncated": False, "eligible": True,
                        "profile": [20.0 - k for k in range(NUM_WINDOWS)],
                        "windows_won": [rng.randrange(NUM_WINDOWS + 1) for _ in range(NUM_GENERATIONS)],
                        "peer_wins": member, "reward": float(member == 7), "advantage": 0.5, "keep": True,
                        "tokens": text, "token_certainty": certainty,
                    }  # fmt: skip
                    file.write(json.dumps(record) + "\n")
    run.finish({"num_steps": num_steps, "seconds": 1.0})
    return num_steps * num_groups * NUM_GENERATIONS


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        count = make_run(run, NUM_STEPS, NUM_GROUPS, NUM_TOKENS)
        size = (run / "samples.jsonl").stat().st_size / 1e6
        print(f"{count:,} completions, {size:.0f} MB of samples.jsonl", flush=True)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "sif_trainer.cli.main", "report", str(run)], check=True)
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        page = (run / "report.html").stat().st_size / 1e6
        print(f"page of {page:.1f} MB in {seconds:.1f} s with {memory:.2f} GB")


if __name__ == "__main__":
    main()
