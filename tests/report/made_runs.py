"""Run folders that tests make: by the commands, of given samples, a study of copies; and texts that mean harm."""

from __future__ import annotations

import shutil
from pathlib import Path

from sif_trainer.runs.folder import RunFolder

FEW = ["num_prompts=8", "prompts_per_step=2", "num_generations=4", "per_device_train_batch_size=8"]
STEPS = ["samples_every=1", "save_steps=2", "warmup_steps=0"]
COMMANDS = {
    "train": ["train", "smoke/quickstart", *FEW, *STEPS, "max_steps=3", "num_validation_prompts=4",
              "num_validation_samples=1"],
    "adapt": ["adapt", "smoke/adapt", *FEW[1:], *STEPS, "limit=4", "max_steps=2", "eval_num_samples=2", "eval_k=[1]"],
    "eval": ["eval", "smoke/evaluate", "limit=4", "num_samples=2", "k=[2]"],
    "probe": ["probe", "smoke/quickstart", *FEW, "num_probe_prompts=6"],
    "jointcore": ["jointcore", "exact", "methods=[full_memory, galloping]"],
    "balar": ["balar", "synthetic", "num_cases=3", "sizes=[small]"],
    "adap": ["adap", "search", "adap/cipher", "limit=6", "best_of_n=false"],
}  # fmt: skip
HOSTILE = {
    "markup": "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'></pre></script><!--",
    "template": "{{ 7 * 7 }}{% raw %}{{ config }}",
    "control": "bell\x07 escape\x1b[31mred\x1b]0;title\x07 null\x00 c1\x9b31m",
    "direction": "abc\u202edef\u2066ghi\u200f",
    "surrogate": "half \ud83d pair",
    "long": "x" * 1_000_000,
}


def make_study(path: Path, run: Path) -> Path:
    """A study of two arms, whose runs are copies of a training run; one has not ended."""
    study = RunFolder.open(path, "study", {"model": "embedded:cipher"})
    study.write_json("study", {"reference": "sif", "shown_steps": [2], "tables": {}, "arms": {"sif": {}, "top2": {}}})
    for arm, seed in (("sif", 1), ("sif", 2), ("top2", 1)):
        shutil.copytree(run, path / arm / f"seed{seed}", ignore=shutil.ignore_patterns("last", "best", "checkpoint*"))
        study.records("runs").append({"arm": arm, "seed": seed, "failed": None})
    (path / "sif" / "seed2" / "summary.json").unlink()
    return path


def sample(step: int = 1, group: int = 0, member: int = 0, text: str = "a b", **changes: object) -> dict:
    """A record of samples.jsonl, of a group of two in which the second won."""
    won = member == 1
    return {
        "step": step, "id": f"p{group}", "group": group, "prompt": f"prompt {group}", "completion": text,
        "length": 2, "truncated": False, "eligible": True, "profile": [3.0, 2.0, 1.0 + member],
        "windows_won": [0, 0] if not won else [3, 0], "peer_wins": int(won), "reward": float(won),
        "advantage": 0.7 if won else -0.7, "keep": True, "monitor/accuracy": 0.0, **changes,
    }  # fmt: skip


def make_run(path: Path, samples: list[dict], finished: bool = True, **config: object) -> Path:
    """A training run with these samples."""
    run = RunFolder.open(path, "train", {"model": "org/model", "feedback": "sif", "window_wins": 3, **config}, seed=7)
    run.records("metrics").append({"step": 1, "sif/keep_rate": 1.0, "sif/certainty_mean": 2.5})
    for record in samples:
        run.records("samples").append(record)
    if finished:
        run.finish({"num_steps": 1, "seconds": 1.0})
    return path
