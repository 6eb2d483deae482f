"""Append-only records: what was appended is read back, whatever a kill or a full disk did at the end."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import Records, read_json_lines, strict_json, write_atomically

FULL_DISK = Path("/dev/full")
needs_full_disk = pytest.mark.skipif(not FULL_DISK.exists(), reason="this system has no /dev/full")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def finite(value: Any) -> Any:
    """The value with null for what JSON cannot say."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list) else value


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not strict JSON")


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_a_record_is_one_strict_line(record: dict[str, Any]) -> None:
    line = strict_json(record)
    assert "\n" not in line
    assert json.loads(line, parse_constant=refuse_constant) == finite(record)


def test_records_are_read_back_in_order(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.jsonl")
    assert list(records) == []
    rows = [{"step": step, "text": "grün ✓", "loss": math.nan} for step in range(3)]
    for row in rows:
        records.append(row)
    assert list(Records(tmp_path / "r.jsonl")) == [{**row, "loss": None} for row in rows]


def test_half_a_surrogate_pair_survives(tmp_path: Path) -> None:
    Records(tmp_path / "r.jsonl").append({"text": "a\ud800b"})
    assert list(Records(tmp_path / "r.jsonl")) == [{"text": "a\ud800b"}]


@given(st.integers(0, 40))
def test_a_file_cut_anywhere_keeps_its_complete_records(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "r.jsonl"
    lines = b'{"step": 1}\n{"step": 22}\n{"step": 333}\n'
    path.write_bytes(lines[:cut])
    complete = lines[:cut].count(b"\n")
    records = Records(path)
    assert [record["step"] for record in records] == [1, 22, 333][:complete]
    records.append({"step": 4})
    assert [record["step"] for record in Records(path)] == [*[1, 22, 333][:complete], 4]


def test_a_reader_passes_over_the_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"step": 1}\n{"ste')
    assert list(Records(path, writer=False)) == [{"step": 1}]
    assert path.read_text().endswith('{"ste')


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"step": 1}\nnot json\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"r\.jsonl, line 2: not JSON"):
        list(Records(path))


def test_only_the_writer_writes(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.jsonl", writer=False)
    records.append({"step": 1})
    assert not records.path.exists()


def test_records_after_a_checkpoint_are_dropped(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.jsonl")
    for step in range(5):
        records.append({"step": step})
    assert records.keep(lambda record: record["step"] <= 2) == 2
    assert [record["step"] for record in records] == [0, 1, 2]


def test_a_killed_writer_loses_no_finished_record(tmp_path: Path) -> None:
    code = (
        "import sys; from sif_trainer.runs.records import Records\n"
        "records = Records(__import__('pathlib').Path(sys.argv[1]))\n"
        "for step in range(10**9):\n"
        "    records.append({'step': step, 'text': 'x' * 3000}); print(step, flush=True)"
    )
    path = tmp_path / "r.jsonl"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(50)]
        os.kill(process.pid, signal.SIGKILL)
        told += [int(line) for line in process.stdout]
    steps = [record["step"] for record in Records(path)]
    assert steps == list(range(len(steps)))
    assert told == steps[: len(told)]


@needs_full_disk
def test_a_full_disk_is_told_with_a_remedy(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.jsonl")
    records.path.symlink_to(FULL_DISK)
    with pytest.raises(UserError, match=r"cannot write .*r\.jsonl: No space left on device; free some space"):
        records.append({"step": 1})


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        Records(tmp_path / "no" / "r.jsonl").append({"step": 1})


def test_an_atomic_write_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    for text in ("old", "new"):
        write_atomically(tmp_path / "f.txt", text)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("f.txt", "new")]


def test_json_lines_come_from_files_gzip_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"a": 1}\n\n{"a": 2}\n'
    expected = [(1, {"a": 1}), (3, {"a": 2})]
    (tmp_path / "f.jsonl").write_text(text)
    (tmp_path / "f.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    for source in (tmp_path / "f.jsonl", str(tmp_path / "f.jsonl.gz"), "-"):
        assert list(read_json_lines(source)) == expected


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("f.jsonl", b'{"a": 1}\n{"a": \n', "f.jsonl, line 2: not JSON"),
        ("f.jsonl", b"[1]\n", "f.jsonl, line 1: expected a JSON object, found list"),
        ("f.jsonl", b"\xff\xfe\n", "f.jsonl: cannot be read"),
        ("f.jsonl.gz", b"not gzip", "f.jsonl.gz: cannot be read"),
        ("f.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 100, mtime=0)[:-9], "f.jsonl.gz: cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        list(read_json_lines(tmp_path / name))
    assert complaint in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such file: .*nothing\.jsonl"):
        list(read_json_lines(tmp_path / "nothing.jsonl"))
    with pytest.raises(UserError, match="cannot be read"):
        list(read_json_lines(tmp_path))
