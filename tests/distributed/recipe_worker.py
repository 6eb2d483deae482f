"""Worker of test_strategies.py: `sif train` with fixed rollouts, so that one process and two see the same responses.

    accelerate launch --config_file FILE recipe_worker.py RECIPE FOLDER [--fake-gpu] [key=value …]

`--fake-gpu` lets accelerate take the CPU for a device that it shards on. Rank 0 saves the world size and strategy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from pathlib import Path

import torch
from accelerate.state import DistributedType, PartialState

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny
from transformers import TrainerCallback

from sif_trainer.cli.train import quiet_libraries
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.recipe import load_recipe
from sif_trainer.runs.schema import build
from sif_trainer.trainer.adapters import merge_trained
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.factory import TrainRecipe, build_config, make_trainer
from sif_trainer.trainer.run import train


def take_the_cpu_for_a_gpu() -> None:
    """Accelerate knows no FSDP on CPUs; with these two answers replaced, it does the same as on GPUs."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    PartialState._prepare_backend = lambda *args, **kwargs: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = lambda self: None


def spare_the_compiler() -> None:
    """DeepSpeed would compile a collective in shared memory for minutes; without it, it sends through gloo."""
    # Not `deepspeed.comm.torch`, an attribute that is the library torch.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None


class Kill(TrainerCallback):
    """Ends the process of rank 1 after a step, as a full memory would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs) -> None:
        if state.global_step == self.step and os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--fake-gpu", action="store_true")
    parser.add_argument("--kill-at", type=int)
    args = parser.parse_intermixed_args()
    quiet_libraries()
    torch.set_num_threads(1)
    if args.fake_gpu:
        take_the_cpu_for_a_gpu()
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and os.environ.get("DS_ACCELERATOR") == "cpu":
        spare_the_compiler()
    values = load_recipe(args.recipe, args.overrides, TrainRecipe, SIFConfig)
    recipe, config = build(TrainRecipe, values), build_config(values, args.folder)
    folder = RunFolder.open(args.folder, "train", values, seed=config.seed)
    trainer = make_trainer(recipe, config, rollout_func=tiny.fixed_rollouts)
    if args.kill_at is not None:
        trainer.add_callback(Kill(args.kill_at))
    summary = train(trainer, folder)
    merge_trained(recipe, folder)
    if folder.writer:
        accelerator = trainer.accelerator
        how = {"world_size": accelerator.num_processes, "type": accelerator.distributed_type.value}
        (args.folder / "how.json").write_text(json.dumps({**how, **summary}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"sif train: error: {error}", file=sys.stderr)
        sys.exit(2)
