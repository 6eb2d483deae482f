"""`sif report` and `sif view` as they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from sif_trainer.cli.main import main
from sif_trainer.runs.folder import RunFolder


def make_run(path: Path, text: str = "first\x1b[31m answer") -> Path:
    run = RunFolder.open(path, "train", {"model": "m", "feedback": "sif", "window_wins": 2}, seed=1)
    for step in (1, 11):
        for member in (0, 1):
            run.records("samples").append(
                {
                    "step": step, "id": None, "group": 0, "prompt": [{"role": "user", "content": f"ask {step}"}],
                    "completion": text, "length": 3, "truncated": False, "eligible": True, "profile": [2.0, 1.0],
                    "windows_won": [2 * member, 0], "peer_wins": member, "reward": float(member), "advantage": 0.5,
                    "keep": True, "tokens": [text[:5], text[5:]], "token_certainty": [1.25, 2.5],
                }
            )  # fmt: skip
    run.records("metrics").append({"step": 11, "sif/keep_rate": 1.0})
    return path


def test_the_page_lies_in_the_run_or_where_it_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").exists() and "report.html" in capsys.readouterr().out
    out = tmp_path / "deep" / "page.html"
    assert main(["report", str(run), "--out", str(out)]) == 2
    assert "there is no folder" in capsys.readouterr().err
    out.parent.mkdir()
    assert main(["report", str(run), "--out", str(out)]) == 0 and out.exists()
    before = (run / "report.html").read_bytes()
    assert main(["report", str(run), str(make_run(tmp_path / "other"))]) == 0
    assert (run / "report.html").read_bytes() == before and (run / "comparison.html").exists()


def test_groups_in_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    assert main(["view", str(run), "--most", "1"]) == 0
    printed = capsys.readouterr().out
    assert "step 1 · group 0" in printed and "[user]\nask 1" in printed and "ask 11" not in printed
    assert "1 of 2 groups" in printed and "first␛[31m answer" in printed and "\x1b" not in printed
    assert "2*" in printed and "█▁" in printed


def test_groups_are_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    for choice in (["--where", "step 11"], ["--text", "ASK 11"], ["--where", "step 11", "--tag", "with a winner"]):
        assert main(["view", str(run), *choice]) == 0
        printed = capsys.readouterr().out
        assert "ask 11" in printed and "1 of 1 groups" in printed
    assert main(["view", str(run), "--color", "--most", "0"]) == 0
    assert "\x1b[" in capsys.readouterr().out


def test_what_cannot_be_shown_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    assert main(["view", str(run), "--where", "step 2"]) == 2
    assert '--where takes "step 1", "step 11"' in capsys.readouterr().err
    RunFolder.open(tmp_path / "study", "study", {})
    assert main(["view", str(tmp_path / "study")]) == 2
    assert "keeps no groups of completions; runs of `sif train`" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "did you mean" in capsys.readouterr().err
