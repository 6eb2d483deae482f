"""`sif analyze` as a user meets it: runs side by side, records that are missing, folders that are none, the toy."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from sif_trainer.cli.main import main


def make_run(folder: Path, slope: float, *without: str) -> Path:
    folder.mkdir(parents=True)
    records = {
        "metrics": [
            {
                "step": step,
                "sif/certainty_mean": 4 + slope * step,
                "sif/certainty_variance": 1 + slope * step,
                "sif/top_word_share": 0.1,
                "monitor/accuracy/all": 0.5,
                "monitor/accuracy/kept": 0.6,
            }
            for step in range(1, 21)
        ],
        "samples": [{"step": step, "completion": "one two two"} for step in (1, 11)],
        "validation": [{"step": step, "accuracy": 0.5 - slope * abs(step - 10) / 100} for step in (0, 10, 20)],
    }
    for name, lines in records.items():
        if name not in without:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that `sif analyze` answers bad input with."""
    assert main(["analyze", *map(str, arguments)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1, errors
    return errors[0]


def test_runs_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path / "runs" / arm / "seed1", slope) for arm, slope in (("sif", 0.1), ("intuitor", 1.0))]
    out = tmp_path / "out"
    assert main(["analyze", *map(str, runs), "--out", str(out)]) == 0
    page = capsys.readouterr().out
    for row in (
        "| intuitor/seed1 | last  | 20   | 22.000    | 19.000   | 0.100          | 0.556         | two      |",
        "| sif/seed1      | accuracy | early | 1-5   | 50.0 | 60.0 | +10.0 [+10.0, +10.0] |",
        "| intuitor/seed1 | 20   | 19.500         | 40.0                 |",
        "- Largest gap in variance, intuitor/seed1 minus sif/seed1: +18.000 at step 20.",
    ):
        assert row in page
    assert (out / "analysis.md").read_text().strip() in page and (out / "analysis.png").stat().st_size > 0
    points = list(csv.DictReader((out / "analysis.csv").open()))
    assert {"run": "sif/seed1", "curve": "accuracy", "step": "10", "value": "0.5"} in points


def test_a_run_without_some_records_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "mine", 0.1, "samples", "validation")
    assert main(["analyze", str(run), "--out", str(tmp_path / "out")]) == 0
    page = capsys.readouterr().out
    assert "- mine has no samples.jsonl" in page and "- mine has no validation.jsonl" in page
    assert "Table 4" in page and "Table 10" not in page


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "mine", 0.1)
    assert "or --toy without any" in refused(capsys)
    assert "or --toy without any" in refused(capsys, run, "--toy")
    assert "is named twice" in refused(capsys, run, f"{run}/")
    assert "is no folder of a training run" in refused(capsys, tmp_path / "gone")
    (tmp_path / "study.json").touch()
    assert "name its runs: FOLDER/ARM/seedK" in refused(capsys, tmp_path)
    assert "cannot write" in refused(capsys, run, "--out", run / "metrics.jsonl" / "out")
    (run / "samples.jsonl").write_text("{]\n")
    assert "samples.jsonl, line 1: not JSON" in refused(capsys, run, "--out", tmp_path / "out")
    shutil.rmtree(run)


def test_the_toy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--toy", "--out", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    row = next(line for line in page.splitlines() if line.startswith("| peak of p(C)"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:6] == ["2.1910", "0.5151", "1.0000", "0.0671", "0.5336"]
    assert (tmp_path / "toy.png").stat().st_size > 0
    curves = list(csv.DictReader((tmp_path / "toy.csv").open()))
    greedy = [row["greedy accuracy"] for row in curves]
    assert [value for k, value in enumerate(greedy) if k == 0 or value != greedy[k - 1]] == ["0", "1", "0"]
