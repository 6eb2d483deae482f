"""`sif report RUN …`: one self-contained HTML page of a run, or of several compared.

    sif report runs/train/smoke/quickstart
    sif report runs/study/cipher/sif/seed1 runs/study/cipher/top2/seed1 --out sif_against_top2.html

A run that has not finished gets a page that says so. The page opens from disk and needs no network.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sif_trainer.report.run import Run, read_run
from sif_trainer.runs.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif report` takes."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run's folder; several are compared")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="the page (default: report.html in the run's folder, comparison.html of several in the first's)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from sif_trainer.report.page import write_page

    runs = [with_findings(read_run(Path(path))) for path in args.runs]
    path = Path(args.out or runs[0].path / ("report.html" if len(runs) == 1 else "comparison.html"))
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}")
    write_page(runs, path)
    print(f"page: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


def with_findings(run: Run) -> Run:
    """Add what `analysis` makes of the run's records, which `report` may not ask for itself."""
    if run.kind == "study":
        from sif_trainer.analysis.study import study_results

        return replace(run, findings=study_results(run.path))
    if run.kind in ("train", "adapt") and (run.path / "metrics.jsonl").exists():
        from sif_trainer.analysis import training

        return replace(run, findings=training.analyze(training.read_run(run.path, run.label)))
    return run
