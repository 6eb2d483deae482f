"""The `sif` command itself: help, versions, what is refused and with which status."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import sif_trainer
from sif_trainer.cli import main as cli
from sif_trainer.runs.errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Puts a command `fake FILE [key=value ...] [--run FOLDER]` that does what the test says into the table."""

    def install(run: Callable[[argparse.Namespace], int]) -> None:
        def add_arguments(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("file")
            parser.add_argument("overrides", nargs="*", default=[])
            parser.add_argument("--run")

        module = types.ModuleType("fake_command")
        module.__dict__.update(add_arguments=add_arguments, run=run)
        monkeypatch.setitem(sys.modules, "fake_command", module)
        monkeypatch.setitem(cli.COMMANDS, "fake", ("fake_command", "does nothing of its own"))

    return install


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        raise error

    return run


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    listed = capsys.readouterr().out
    for name, (module, description) in cli.COMMANDS.items():
        assert f"  {name} " in listed and description in listed
        assert callable(importlib.import_module(module).run)


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        cli.main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"sif {sif_trainer.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["votee"], "sif votee: error: no command 'votee'; did you mean 'vote'? (see sif --help)"),
        (["--verson"], "sif: error: unrecognized arguments: --verson (see sif --help)"),
        (["vote"], "sif vote: error: the following arguments are required: FILE (see sif vote --help)"),
    ],
)
def test_what_cannot_be_parsed_is_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr() == ("", f"{line}\n")


def test_a_users_error_is_one_line_and_status_2(command, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(UserError("it is\n  wrong")))
    assert cli.main(["fake", "x"]) == 2
    assert capsys.readouterr() == ("", "sif fake: error: it is wrong\n")


@pytest.mark.parametrize("rank", ["0", "1"])
def test_under_a_launcher_the_first_process_prints_and_all_tell_the_launcher(
    command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rank: str
) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    monkeypatch.setenv("SIF_ERROR_FILE", str(tmp_path / "errors"))
    command(raising(UserError("it is wrong")))
    assert cli.main(["fake", "x"]) == 2
    line = "sif fake: error: it is wrong\n"
    assert capsys.readouterr().err == (line if rank == "0" else "")
    assert (tmp_path / "errors").read_text() == line
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(tmp_path / "error.json"))
    assert failure.message["message"] == line.strip()  # what torch prints as the root cause


def test_an_interrupt_says_how_to_go_on(command, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(KeyboardInterrupt()))
    assert cli.main(["fake", "x"]) == 130
    assert capsys.readouterr().err == "sif fake: stopped; call again to resume\n"


def test_a_bug_is_not_hidden(command) -> None:
    command(raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["fake", "x"])


def test_settings_and_options_may_come_in_any_order(command) -> None:
    seen: list[argparse.Namespace] = []
    command(lambda args: seen.append(args) or 7)
    for arguments in (
        ["f", "a=1", "--run", "r", "b=2"],
        ["--run", "r", "f", "a=1", "b=2"],
        ["f", "a=1", "b=2", "--run=r"],
    ):
        assert cli.main(["fake", *arguments]) == 7
    assert all(vars(args) == {"file": "f", "overrides": ["a=1", "b=2"], "run": "r"} for args in seen)


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"group": {number}, "certainty": []}}\n' for number in range(5_000)))
    command = [sys.executable, "-m", "sif_trainer.cli.main", "vote", str(rows)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=300) == 141
        assert process.stderr.read() == ""
