"""A folder in which the pages' commands find what they name: small files, tiny models, finished runs.

Shims stand for the programs of a block: bash runs it as it is written, and each shim notes how it was called. What the
calls say is then done by commands.py.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pages import ROOT, Block, blocks

from sif_trainer.cli.main import main

sys.path.insert(0, str(ROOT / "tests" / "trainer"))
import tiny

FEW = ["num_prompts=8", "prompts_per_step=2", "num_generations=4", "per_device_train_batch_size=8", "max_steps=1",
       "warmup_steps=0", "save_steps=1", "samples_every=1"]  # fmt: skip
HELD_OUT = ["num_validation_prompts=4", "num_validation_samples=1"]
RUNS = {  # a finished run of each kind, as it is called in `runs/KIND/…`
    "train": ["train", "smoke/quickstart", *FEW, *HELD_OUT, "window_wins=6", "peer_win_rate=0.1"],
    "study": ["train", "smoke/quickstart", *FEW, *HELD_OUT],
    "eval": ["eval", "smoke/evaluate", "limit=4", "num_samples=2", "k=[2]"],
    "jointcore": ["jointcore", "model", "jointcore/simulated", "every=50"],
}
PROGRAMS = ("accelerate", "bash", "docker", "pip", "pre-commit", "pytest", "python", "sbatch", "sif")
SHIM = f"""#!{sys.executable} -IS
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""
STORE = TemporaryDirectory(prefix="sif-docs-")  # of what is made once in a process; removed at its end
PROBLEMS = [{"id": str(i), "problem": f"what is {i} plus {i}", "answer": str(2 * i)} for i in range(12)]
DECIDE = """import json, sys
def decide(records):
    return {"r3", "r5"} <= {record["id"] for record in records}
if __name__ == "__main__":
    sys.exit(0 if decide([json.loads(line) for line in sys.stdin]) else 1)
"""


@cache
def _models() -> Path:
    folder = Path(STORE.name) / "tiny"
    tiny.model(max_position_embeddings=4096).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return folder


@cache
def _run(kind: str) -> Path:
    """A finished run of a kind; made once, copied where a command names one."""
    folder = Path(STORE.name) / kind
    assert main([*RUNS[kind], "--run", str(folder)]) == 0
    return folder


def make_workspace(folder: Path, page: str) -> None:
    """Fill an empty folder with everything that commands name, and with the files that the page itself shows."""
    for name in ("benchmarks", "launch", "recipes", "tests", ".pre-commit-config.yaml"):
        (folder / name).symlink_to(ROOT / name)
    for path in ("tiny", "path/to/checkpoint", "runs/adapt/x/checkpoint-20"):
        shutil.copytree(_models(), folder / path)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    for name in PROGRAMS:
        (programs / name).write_text(SHIM)
        (programs / name).chmod(0o755)
    rows = "".join(json.dumps(row) + "\n" for row in PROBLEMS)
    data = folder / "data" / "benchmarks"
    data.mkdir(parents=True)
    for path in (
        folder / "problems.jsonl",
        folder / "my_problems.jsonl",
        *(data / f"{n}.jsonl" for n in ("aime2025", "math500", "gsm8k_test", "sums")),
    ):
        path.write_text(rows)
    for path in (folder / "mine.jsonl.gz", folder / "my_problems.jsonl.gz", data / "math_train.jsonl.gz"):
        path.write_bytes(gzip.compress(rows.encode()))
    (folder / "answers.jsonl").write_text('{"pred": "so it is 4", "gold": "4"}\n{"pred": "5", "gold": "4"}\n')
    (folder / "certainties.jsonl").write_text(
        "".join(json.dumps({"group": i // 4, "certainty": [float(i % 4 + k % 3) for k in range(600)]}) + "\n"
                for i in range(8))
    )  # fmt: skip
    (folder / "records.jsonl").write_text(
        "".join(json.dumps({"id": f"r{i}", "text": f"note {i}", "cost": 1, "relevance": i}) + "\n" for i in range(8))
    )
    (folder / "script.json").write_text('{"scores": {"": {"ADMIT": -1, "REFUSE": -2, "ASK": -3}}}')
    (folder / "decide.py").write_text(DECIDE)
    (folder / "check.py").write_text("import sys\nsys.exit('7' not in open(sys.argv[1]).read())\n")
    (folder / "pool.npz").write_bytes(_pool())
    for block in blocks():  # a block whose first line names a file is that file
        first = block.text.split("\n", 1)[0]
        if block.page == page and first.startswith("# ") and first.endswith((".py", ".yaml")) and " " not in first[2:]:
            (folder / first[2:]).write_text(block.text)


@cache
def _pool() -> bytes:
    draw, file = np.random.default_rng(0), io.BytesIO()
    rewards = draw.normal(size=(6, 40))
    labels = rewards + draw.normal(size=(6, 40)) > 1
    np.savez(file, ids=np.array([f"p{i}" for i in range(6)]), rewards=rewards, labels=labels)
    return file.getvalue()


def provide_runs(folder: Path, arguments: list[str]) -> list[str]:
    """Put a finished run wherever an argument names a folder below runs/ that is not there; expand patterns."""
    found: list[str] = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if not argument.startswith("runs/") or before in ("--run", "--out"):
            found.append(argument)
            continue
        if not list(folder.glob(argument)):
            run = argument.replace("*", "sif").removesuffix("/last")  # the model of a run comes with the run
            shutil.copytree(_run(argument.split("/")[1]), folder / run)
        found += sorted(path.relative_to(folder).as_posix() for path in folder.glob(argument))
    return found


def calls_of(block: Block, folder: Path) -> list[list[str]]:
    """Run a block by bash, with shims for all programs but the shell's own, and return how they were called."""
    notes = folder / ".calls"
    notes.touch()
    path = f"{folder / '.venv' / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/bash", "-eu", "-c", block.text],
        cwd=folder,
        env={"PATH": path, "CALLS": str(notes), "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}: {done.stderr}"
    return [json.loads(line) for line in notes.read_text().splitlines()]
