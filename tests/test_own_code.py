"""Code of the user's own: found, executed once in a process, and named when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from sif_trainer.feedback.rules import find_rule
from sif_trainer.own_code import load_own, own_file
from sif_trainer.systems.adap.scorers import FunctionScorer
from sif_trainer.systems.jointcore.judges import load_function


def test_a_file_is_executed_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n"
        "with Path(__file__).with_name('log').open('a') as log:\n"
        "    log.write('executed ')\n"
        "def mine(*arguments):\n"
        "    return 1.0\n"
        "other = mine\n"
    )
    monkeypatch.chdir(tmp_path)
    for name in (f"{tmp_path / 'mine.py'}:mine", "mine.py:mine", "./mine.py:other"):
        find_rule(name)
        FunctionScorer.load(name)
        load_function(name)
        assert load_own(name) is load_own("mine.py:mine")
    assert (tmp_path / "log").read_text() == "executed "


def test_files_of_one_name_are_not_confused(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "mine.py").write_text(f"number = {number}\n")
    assert [load_own(f"{tmp_path / name / 'mine.py'}:number") for name in ("1", "2")] == [1, 2]


def test_a_module_and_a_name_within_a_name() -> None:
    assert load_own("pathlib:Path.exists") is Path.exists
    assert own_file("pathlib:Path.exists") is None and own_file("deep/mine.py:f") == "deep/mine.py"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("decide", "'decide' names nothing; write FILE.py:NAME or module:NAME"),
        ("mine.py:", "names nothing"),
        ("gone.py:f", r"'gone.py:f': there is no file gone.py \(looked for in"),
        ("no_such_module:f", "no_such_module cannot be loaded: ModuleNotFoundError"),
        ("mine.py:g", "mine.py holds no 'g'"),
        ("broken.py:f", "broken.py cannot be loaded: NameError: name 'nothing' is not defined"),
        ("ends.py:f", "ends.py cannot be loaded: SystemExit: 3"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    name: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("f = 1\n")
    (tmp_path / "broken.py").write_text("f = nothing\n")
    (tmp_path / "ends.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(ValueError, match=complaint):
        load_own(name)
