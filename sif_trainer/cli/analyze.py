"""`sif analyze RUN…`: what the records of training runs show, side by side; `sif analyze --toy`: the theory's example.

    sif analyze runs/train/mine runs/train/baseline
    sif analyze runs/study/cipher/*/seed1 --out runs/analysis/cipher
    sif analyze --toy

Reads run folders only, finished or not; tables, CSV and a figure go to --out. docs/theory.md walks through the toy.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import writing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif analyze` takes."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="folder of a training run")
    parser.add_argument("--toy", action="store_true", help="the closed forms of the theory's example; reads no run")
    parser.add_argument(
        "--out", metavar="FOLDER", default="runs/analysis", help="where the results go (default: runs/analysis)"
    )


def run(args: argparse.Namespace) -> int:
    """Analyze the runs, or the toy, and show the tables."""
    if args.toy == bool(args.runs):
        raise UserError("name the folders of training runs, or --toy without any")
    out = Path(args.out)
    runs = [] if args.toy else _read(args.runs)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    if args.toy:
        from sif_trainer.analysis.toy import toy_results
        from sif_trainer.report.toy import show_toy

        show_toy(out, toy_results())
    else:
        from sif_trainer.report.analysis import show_analysis

        show_analysis(out, runs)
    return 0


def _read(folders: list[str]) -> list[dict[str, object]]:
    """Analyze each run under a label as short as tells them apart."""
    from sif_trainer.analysis.training import analyze, read_run

    paths = [Path(os.path.abspath(folder)) for folder in folders]
    if len({*paths}) < len(paths):
        raise UserError("a run is named twice")
    above = paths[0].parent if len(paths) == 1 else Path(os.path.commonpath(paths))
    return [analyze(read_run(path, str(path.relative_to(above)))) for path in paths]
