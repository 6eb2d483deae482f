"""One of two processes that measure a model together; `test_processes.py` launches it. Writes the result to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed as dist
from transformers import AutoModelForCausalLM, AutoTokenizer

from sif_trainer.evaluation.online import online_measure
from sif_trainer.tasks.load import load_benchmark

checkpoint, data_dir, folder = sys.argv[1:]
dist.init_process_group("gloo")
measure = online_measure(
    AutoTokenizer.from_pretrained(checkpoint),
    load_benchmark("math500", data_dir, limit=7),
    max_tokens=12,
    num_samples=2,
    temperature=1.0,
    share=True,
)
found = measure(AutoModelForCausalLM.from_pretrained(checkpoint))
Path(folder, f"rank{dist.get_rank()}.json").write_text(json.dumps(found))
dist.destroy_process_group()
