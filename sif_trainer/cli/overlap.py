"""`sif overlap SUITE --training SOURCE`: which evaluation problems stand in the training prompts.

    sif overlap math500,omni_math --data-dir data --training data/math_train.jsonl.gz > overlap.jsonl

Each line out holds `benchmark`, `evaluation_id`, `training_id`, `share` (of the problem's runs of words) and `is_same`
(letter for letter); counts go to standard error.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from sif_trainer.runs.records import strict_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif overlap` takes."""
    parser.add_argument("suite", metavar="SUITE", help="suites or benchmarks by name, with commas between them")
    parser.add_argument(
        "--training", required=True, metavar="SOURCE", help="the training prompts: a JSON-lines file, hub:NAME, …"
    )
    parser.add_argument(
        "--data-dir", metavar="FOLDER", help="folder of the benchmarks' files; the hub is asked if left out"
    )
    parser.add_argument(
        "--min-share", type=float, default=0.8, help="runs of ten words that a near copy shares (default: 0.8)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, match, print."""
    from sif_trainer.data.sources import read_rows
    from sif_trainer.tasks.benchmarks import expand
    from sif_trainer.tasks.load import load_benchmark
    from sif_trainer.tasks.overlap import find_overlap, prompt_text

    names = expand(args.suite.split(","))
    training = {row["id"]: prompt_text(row) for row in read_rows(args.training)}
    for name in names:
        problems = {problem.id: problem.text for problem in load_benchmark(name, args.data_dir)}
        report = find_overlap(problems, training, min_share=args.min_share)
        for match in report.matches:
            print(strict_json({"benchmark": name, **asdict(match)}))
        print(f"{name}: {report.explain()}", file=sys.stderr)
    return 0
