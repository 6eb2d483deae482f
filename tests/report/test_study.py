"""The study's page, CSV files and figure, from results of which the numbers are known."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sif_trainer.analysis.study import compare
from sif_trainer.report.study import curves_csv, show_study, study_page, table_csv


def results(tables: dict[str, list[str]] | None = None) -> dict:
    finals = {"sif": {1: 0.6, 2: 0.7}, "top2": {1: 0.2, 2: 0.3}, "vigor": {}}
    curves = {
        arm: {seed: [{"step": 0, "accuracy": 0.25}, {"step": 20, "accuracy": 0.65}, {"step": 40, "accuracy": final}]
              for seed, final in by_seed.items()}
        for arm, by_seed in finals.items()
    }  # fmt: skip
    runs = [
        {"arm": arm, "seed": seed, "finished": True, "failed": None, "curve": curve}
        for arm, by_seed in curves.items()
        for seed, curve in by_seed.items()
    ]
    runs.append({"arm": "vigor", "seed": 1, "finished": False, "failed": "too large", "curve": []})
    return {
        "reference": "sif",
        "tables": tables or {},
        "arms": {arm: {} for arm in finals},
        "runs": runs,
        "quantities": compare(curves, "sif", [20]),
    }


def test_the_page_has_the_papers_columns() -> None:
    page = study_page(results())
    assert "| arm   | seeds | before            | peak (step)" in page
    row = next(line for line in page.splitlines() if line.startswith("| top2"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # Of two values 0.1 apart the mean's interval is 12.706 * 0.05 to each side.
    assert cells == ["top2", "2", "25.0 [25.0, 25.0]", "65.0 [65.0, 65.0] (20)", "65.0 [65.0, 65.0]",
                     "25.0 [-38.5, 88.5]", "40.0 [-23.5, 103.5]"]  # fmt: skip
    assert "-40.0 [-40.0, -40.0]" in page.split("## Paired differences to sif")[1]
    assert "- Not in the tables: vigor, seed 1, not measured yet; it failed: too large" in page


def test_tables_show_the_arms_that_there_are() -> None:
    page = study_page(results({"Table 11": ["sif", "top2", "not_run"], "Other": ["sif", "vigor"]}))
    assert page.index("## Table 11") < page.index("| top2") < page.index("## Other") < page.index("| vigor")
    assert "not_run" not in page


def test_files(tmp_path: Path) -> None:
    show_study(tmp_path, results({"A": ["sif"], "B": ["sif", "top2"], "C": ["vigor"]}))
    for name in ("table.md", "table.csv", "curves.csv", "study.png"):
        assert (tmp_path / name).stat().st_size > 0, name
    rows = list(csv.DictReader(table_csv(results()).splitlines()))
    found = {(row["arm"], row["quantity"]): row for row in rows}
    numbers = [float(found["top2", "final"][part]) for part in ("mean", "difference_mean")]
    assert numbers == pytest.approx([0.25, -0.4])
    assert found["sif", "final"]["difference_mean"] == "" and found["sif", "peak step"]["mean"] == "30.0"
    points = list(csv.DictReader(curves_csv(results()).splitlines()))
    assert len(points) == 12 and points[0] == {"arm": "sif", "seed": "1", "step": "0", "accuracy": "0.25"}
