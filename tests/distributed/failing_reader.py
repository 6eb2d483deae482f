"""Worker of test_two_processes.py: an answer reader that fails on one process; each saves what it then raised."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny

from sif_trainer.runs.errors import UserError


class FailsOnRank(tiny.FirstLetter):
    """Finding answers fails on rank 1, or comparing them on rank 0, which alone compares."""

    def extract(self, text: str) -> str | None:
        if sys.argv[2] == "extract" and os.environ["RANK"] == "1":
            raise LookupError("no letter")
        return super().extract(text)

    def classes(self, groups: object) -> list[list[int | None]]:
        if sys.argv[2] == "classes":
            raise UserError("no class")
        return super().classes(groups)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    trainer = tiny.trainer(
        folder / "run",
        rollout_func=tiny.fixed_rollouts,
        reward_funcs=[],
        answers=FailsOnRank(),
        feedback="majority",
        ddp_backend="gloo",
    )
    try:
        trainer.train()
    except UserError as error:
        (folder / f"error-{os.environ['RANK']}").write_text(str(error))
