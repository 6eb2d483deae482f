"""Run folders: made, gone on with, refused, finished."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.flat_yaml import parse_mapping
from sif_trainer.runs.folder import RunFolder

CONFIG = {"learning_rate": 3e-6, "num_steps": 10, "model": Path("m"), "bound": float("inf"), "weights": (1.0, 0.5)}
ROOT = Path(__file__).parents[2]


def open_run(path: Path, **changes: Any) -> RunFolder:
    """The folder as a command opens it."""
    settings = {"command": "train", "config": CONFIG, "reference": {"learning_rate": 1e-6, "num_steps": 10}, "seed": 1}
    return RunFolder.open(path, **{**settings, **changes})


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_new_folder_tells_what_is_run(tmp_path: Path) -> None:
    run = open_run(tmp_path / "deep" / "run")
    manifest = read_json(run.path / "manifest.json")
    assert (manifest["command"], manifest["seed"]) == ("train", 1)
    (start,) = manifest["starts"]
    assert (
        start["command_line"]
        and start["versions"]["torch"]
        and start["python"]
        and start["platform"]
        and start["num_cpus"]
    )
    config = parse_mapping((run.path / "config.yaml").read_text(), "config")
    assert config == {**CONFIG, "model": "m", "weights": [1.0, 0.5]}
    difference = parse_mapping((run.path / "paper_diff.yaml").read_text(), "difference")
    assert difference["learning_rate"] == {"here": 3e-6, "reference": 1e-6}
    assert difference["model"] == {"here": "m"}
    assert "num_steps" not in difference
    assert not run.finished


def test_the_same_configuration_goes_on(tmp_path: Path) -> None:
    open_run(tmp_path / "run").records("metrics").append({"step": 1})
    again = open_run(tmp_path / "run")
    assert list(again.records("metrics")) == [{"step": 1}]
    assert len(read_json(again.path / "manifest.json")["starts"]) == 2


def test_an_edited_input_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("old")
    inputs = {"data": data, "pool": b"content", "problems": None, "records": "-"}
    open_run(tmp_path / "run", inputs=inputs).finish({"value": 1})
    assert set(read_json(tmp_path / "run" / "manifest.json")["inputs"]) == {"data", "pool"}
    assert open_run(tmp_path / "run", inputs=inputs).finished
    assert "inputs" not in parse_mapping((tmp_path / "run" / "config.yaml").read_text(), "config")
    for changed, name in (({"pool": b"other"}, "pool"), ({"pool": None}, "pool"), ({"problems": data}, "problems")):
        with pytest.raises(UserError, match=f"holds another run: the content of {name} is"):
            open_run(tmp_path / "run", inputs=inputs | changed)
    data.write_text("new")
    with pytest.raises(UserError, match="the content of data is"):
        open_run(tmp_path / "run", inputs=inputs)
    with pytest.raises(UserError, match=r"no such file: .*gone"):
        open_run(tmp_path / "other", inputs={"data": tmp_path / "gone"})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"config": {**CONFIG, "num_steps": 11}}, "num_steps is 10 there, 11 here"),
        ({"config": {**CONFIG, "extra": "x"}}, "extra is 'not set' there, 'x' here"),
        ({"command": "evaluate"}, "command is 'train' there, 'evaluate' here"),
        ({"seed": 2}, "seed is 1 there, 2 here"),
        ({"config": {}}, "'not set' here, "),
    ],
)
def test_another_configuration_is_refused_by_its_keys(tmp_path: Path, changes: Any, complaint: str) -> None:
    open_run(tmp_path / "run").records("metrics").append({"step": 1})
    with pytest.raises(UserError) as error:
        open_run(tmp_path / "run", **changes)
    assert complaint in str(error.value)
    assert "--run" in str(error.value)
    open_run(tmp_path / "run")  # and the folder is as it was


def test_a_folder_in_which_nothing_was_done_is_free(tmp_path: Path) -> None:
    open_run(tmp_path / "run")  # a first attempt, refused for a bad setting before any work
    run = open_run(tmp_path / "run", config={**CONFIG, "num_steps": 11})
    assert read_json(run.path / "manifest.json")["config"]["num_steps"] == 11


def test_a_finished_run_says_so(tmp_path: Path) -> None:
    open_run(tmp_path / "run").finish({"accuracy": 0.5, "gain": float("nan")})
    again = open_run(tmp_path / "run")
    assert again.finished
    assert again.summary == {"accuracy": 0.5, "gain": None}


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"run folder .*file is a file"):
        open_run(tmp_path / "file")
    with pytest.raises(UserError, match="cannot write"):
        open_run(tmp_path / "file" / "below")
    with pytest.raises(UserError, match=r"holds other files \(file\) but no run"):
        open_run(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text('{"comm')
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    with pytest.raises(UserError, match=r"manifest\.json: cannot be read"):
        open_run(tmp_path / "run")


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write /proc/1/run.*make the folder writable"):
        open_run(Path("/proc/1/run"))


def test_only_rank_0_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    other = open_run(tmp_path / "run")
    other.records("metrics").append({"step": 1})
    other.finish({})
    assert not other.path.exists()
    monkeypatch.setenv("RANK", "0")
    open_run(tmp_path / "run").finish({})
    assert other.finished


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from sif_trainer.runs.folder import RunFolder\n"
        "RunFolder.open(sys.argv[1], command='train', config={})\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(UserError, match="in use by another process"):
            RunFolder.open(tmp_path / "run", command="train", config={})
        holder.kill()
    assert RunFolder.open(tmp_path / "run", command="train", config={}).writer


def test_a_checkout_is_named_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path)]
    try:
        subprocess.run([*git, "init", "-q"], check=True)
    except FileNotFoundError:
        pytest.skip("needs git")
    source = tmp_path / "sif_trainer" / "runs" / "folder.py"
    source.parent.mkdir(parents=True)
    source.write_text((ROOT / "sif_trainer" / "runs" / "folder.py").read_text())
    spec = importlib.util.spec_from_file_location("folder_elsewhere", source)
    assert spec is not None and spec.loader is not None
    folder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(folder)
    assert folder._git_commit() is None  # no commit yet
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "m"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert folder._git_commit() == head
    source.write_text("changed")
    assert folder._git_commit() == f"{head}-dirty"
