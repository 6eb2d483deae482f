"""Worker of test_resume.py: nine steps in three epochs, going on from the folder's last checkpoint if there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import tiny

from sif_trainer.runs.folder import RunFolder
from sif_trainer.trainer.run import train

if __name__ == "__main__":
    path = Path(sys.argv[1])
    folder = RunFolder.open(path, "train", {"num_iterations": int(sys.argv[2])}, seed=7)
    trained = tiny.trainer(
        path,
        max_steps=9,
        num_train_epochs=3,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=2,
        samples_every=2,
        num_iterations=int(sys.argv[2]),
    )
    train(trained, folder)
