"""One training step in which every prompt and completion has the greatest length, in a scratch folder.

The longest sample of a run may come after hours, and with it the memory error. Completions are random tokens, so that
nothing is generated: memory and time of generation are not in it.
"""

from __future__ import annotations

import dataclasses
import random
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sif_trainer.trainer.check import Subject
from sif_trainer.trainer.factory import build_config, make_trainer
from sif_trainer.trainer.memory import MemoryForecast


@dataclass(frozen=True)
class WorstStep:
    """What the step took: tokens of a row, seconds, bytes at the peak (on a CPU, what the process grew by)."""

    length: int
    seconds: float
    peak: int

    def forecast_of(self, forecast: MemoryForecast) -> int:
        """The forecast without generation."""
        return forecast.static + max(forecast.scoring, forecast.update)


def train_worst_step(values: dict[str, Any], subject: Subject) -> WorstStep:
    """Train one step and forget the result; the model of the recipe is loaded for it."""
    prompt_length, limit = subject.prompts.max_length, subject.config.max_completion_length or 0
    words = [i for i in range(len(subject.tokenizer)) if i not in subject.end_ids]

    def longest(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        source = random.Random(0)
        prompt_of = {str(prompt): source.choices(words, k=prompt_length) for prompt in prompts}
        return {
            "prompt_ids": [prompt_of[str(prompt)] for prompt in prompts],
            "completion_ids": [source.choices(words, k=limit) for _ in prompts],
            "logprobs": [[0.0] * limit for _ in prompts],
        }

    alone = {"report_to": "none", "push_to_hub": False, "use_vllm": False, "certainty_source": "model"}
    once = {"max_steps": 1, "save_strategy": "no", "health": "off", **alone}
    recipe = dataclasses.replace(subject.recipe, validation=None)
    with tempfile.TemporaryDirectory() as folder:
        config = build_config({**values, **once}, Path(folder))
        before = _most_resident()
        trainer = make_trainer(recipe, config, repeat_prompts=True, rollout_func=longest)
        start = time.perf_counter()
        trainer.train()
        elapsed = time.perf_counter() - start
    on_gpu = torch.cuda.is_available()
    peak = torch.cuda.max_memory_allocated() if on_gpu else _most_resident() - before
    return WorstStep(prompt_length + limit, elapsed, peak)


def _most_resident() -> int:
    """Bytes of main memory that this process has held at most (Linux)."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
