"""The page without a browser: what it says, what it holds, and that no text can get out of its place."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import HOSTILE, make_run, sample

from sif_trainer.report import page
from sif_trainer.report.blocks import Series, interval, number, percent, smooth
from sif_trainer.report.page import write_page
from sif_trainer.report.run import read_run, with_labels
from sif_trainer.report.summaries import tables_of
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.balar.summary import summarise


class Elements(HTMLParser):
    """Collects scripts, texts outside of them, and whatever names an address."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict, str]] = []
        self.text, self.addresses, self.policy = "", [], ""
        self._in: dict | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        found = dict(attributes)
        self._in = found if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append((found, ""))
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        self.addresses += [value for name, value in attributes if name in ("href", "src", "action", "srcset")]

    def handle_data(self, data: str) -> None:
        if self._in is None:
            self.text += data
        elif self.scripts and self._in is self.scripts[-1][0]:
            self.scripts[-1] = (self._in, self.scripts[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._in = None


def page_of(*folders: Path, out: Path) -> Elements:
    write_page([read_run(folder) for folder in folders], out)
    return Elements(out.read_text(encoding="utf-8"))


def data_of(found: Elements) -> dict:
    return json.loads(next(text for attributes, text in found.scripts if attributes.get("id") == "data"))


def test_the_page_says_what_was_run(tmp_path: Path) -> None:
    paper = {"model": "org/paper", "feedback": "sif"}
    run = RunFolder.open(
        tmp_path / "mine", "train", {"model": "org/model", "feedback": "sif"}, reference=paper, seed=7
    )
    for step, accuracy in ((0, 0.2), (10, 0.6)):
        ends = {"accuracy_low": accuracy - 0.1, "accuracy_high": accuracy + 0.1}
        record = {"step": step, "accuracy": accuracy, **ends, "greedy": 0.5, "truncated_rate": 0.0, "length": 9.0}
        run.records("validation").append(record)
    run.records("metrics").append({"step": 10, "sif/keep_rate": 0.5})
    run.finish({"num_steps": 10, "seconds": 1.0})
    found = page_of(tmp_path / "mine", out=tmp_path / "page.html")
    text = " ".join(found.text.split())
    assert "Held-out accuracy rose from 20.0 [10.0, 30.0] % to 60.0 [50.0, 70.0] % in 10 steps" in text
    assert '"org/model""org/paper"' in text and "not finished" not in text
    assert sys.argv[-1] in text  # what was typed
    plots = {plot["title"]: plot for plot in data_of(found)["plots"]}
    assert plots["Kept"]["series"][0]["y"] == [0.5]
    assert plots["Held-out accuracy"]["series"][0]["low"] == pytest.approx([0.1, 0.5])


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    found = page_of(make_run(tmp_path / "run", [sample()], finished=False), out=tmp_path / "page.html")
    assert "This run has not finished" in found.text


@pytest.mark.parametrize("command", ["train", "adapt", "eval", "probe", "jointcore model", "balar run", "adap search"])
def test_a_run_that_has_only_begun_has_a_page(tmp_path: Path, command: str) -> None:
    RunFolder.open(tmp_path / "run", command, {"model": "m"}, seed=1)
    assert "This run has not finished" in page_of(tmp_path / "run", out=tmp_path / "page.html").text


def test_cases_without_a_usable_reply_are_told(tmp_path: Path) -> None:
    solved = {"case": "a", "correct": True, "num_asks": 0, "rounds": "", "ended_by": "ready", "used": {}}
    failed = {"case": "b", "correct": False, "error": "no JSON", "used": {}}
    records = [{"method": "direct", **solved}, {"method": "direct", **failed}]
    run = RunFolder.open(tmp_path / "run", "balar run", {"model": "m"})
    run.finish(summarise(records, ("direct",), (5,)))
    text = " ".join(page_of(run.path, out=tmp_path / "page.html").text.split())
    assert "direct answers 50.0" in text and "of 2 cases rightly" in text
    assert "direct: 1 of 2 cases had no usable reply of the model; they count as wrong." in text


def test_runs_are_compared_by_what_differs(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / arm / "seed1", [sample()], feedback=arm) for arm in ("sif", "top2")]
    found = page_of(*folders, out=tmp_path / "page.html")
    assert '"sif"' in found.text and '"top2"' in found.text and "The runs differ in 1 settings" in found.text
    data = data_of(found)
    assert {series["label"] for series in data["plots"][0]["series"]} == {"sif/seed1", "top2/seed1"}
    assert [group["run"] for group in data["browser"]["groups"]] == ["sif/seed1", "top2/seed1"]


def test_nothing_is_asked_of_the_network_and_no_script_but_ours_may_run(tmp_path: Path) -> None:
    found = page_of(make_run(tmp_path / "run", [sample()]), out=tmp_path / "page.html")
    assert all(address.startswith("#") for address in found.addresses)
    directives = dict(part.strip().split(" ", 1) for part in found.policy.split(";"))
    assert directives["default-src"] == "'none'" and "unsafe" not in directives["script-src"]
    scripts = [text for attributes, text in found.scripts if attributes.get("type") != "application/json"]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert directives["script-src"] == " ".join(f"'sha256-{value}'" for value in hashes)


def test_texts_stay_texts(hostile: Path, tmp_path: Path) -> None:
    found = page_of(hostile, out=tmp_path / "page.html")
    plain = page_of(make_run(tmp_path / "plain", [sample()]), out=tmp_path / "plain.html")
    assert len(found.scripts) == len(plain.scripts), "a text ended the element that holds it"
    groups = data_of(found)["browser"]["groups"]
    shown = {name: "".join(group["members"][0]["tokens"]) for name, group in zip(HOSTILE, groups, strict=True)}
    assert shown["markup"] == HOSTILE["markup"] and shown["template"] == HOSTILE["template"]
    assert len(shown["long"]) == 20_000 and groups[-1]["members"][0]["num_cut"] == 980_000
    assert "<b>hostile</b>" in found.text
    assert (tmp_path / "page.html").stat().st_size < 6_000_000


def test_before_the_second_measurement_the_first_is_told(tmp_path: Path) -> None:
    run = RunFolder.open(tmp_path / "run", "train", {"feedback": "sif"}, seed=7)
    record = {"step": 0, "accuracy": 0.2, "accuracy_low": 0.1, "accuracy_high": 0.3}
    run.records("validation").append({**record, "greedy": 0.5, "truncated_rate": 0.0, "length": 9.0})
    run.records("metrics").append({"step": 4, "sif/keep_rate": 0.5})
    text = page_of(tmp_path / "run", out=tmp_path / "page.html").text
    assert "was 20.0 [10.0, 30.0] % at step 0, and has not been measured since; 4 steps" in " ".join(text.split())


def test_groups_that_are_all_too_large_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_COMPLETION_BYTES", 10)
    found = page_of(make_run(tmp_path / "run", [sample(), sample(member=1)]), out=tmp_path / "page.html")
    assert data_of(found)["browser"]["groups"] == [] and "none of 1 recorded groups fits the page" in found.text


def test_the_oracle_is_no_method(tmp_path: Path) -> None:
    run = RunFolder.open(tmp_path / "run", "jointcore exact", {})
    rates = {"sufficiency_rate": 1.0, "savings_rate": 0.5}
    names = ("full_memory", "exact_oracle", "galloping")
    run.finish({"overall": {name: {**rates, "queries": number} for number, name in enumerate(names)}})
    assert "galloping comes first" in page_of(tmp_path / "run", out=tmp_path / "page.html").text


def test_a_large_run_is_shown_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_COMPLETION_BYTES", 10_000)
    samples = [sample(step, 0, member) for step in range(1, 101) for member in (0, 1)]
    found = page_of(make_run(tmp_path / "run", samples), out=tmp_path / "page.html")
    groups = data_of(found)["browser"]["groups"]
    assert groups[0]["where"] == "step 1" and groups[-1]["where"] == "step 100" and 5 < len(groups) < 50
    assert re.search(rf"{2 * len(groups)} completions, {len(groups)} of 100 recorded groups", found.text)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        read_run(tmp_path / "nowhere")
    make_run(tmp_path / "outer" / "inner", [])
    with pytest.raises(UserError, match=r"did you mean .*inner\?"):
        read_run(tmp_path / "outer")
    run = read_run(tmp_path / "outer" / "inner")
    with pytest.raises(UserError, match="given twice"):
        write_page([run, run], tmp_path / "page.html")
    RunFolder.open(tmp_path / "other", "grade", {})
    with pytest.raises(UserError, match="run of `sif grade`"):
        write_page([read_run(tmp_path / "other")], tmp_path / "page.html")
    (tmp_path / "other" / "manifest.json").write_text("{")
    with pytest.raises(UserError, match=r"manifest.json is not JSON"):
        read_run(tmp_path / "other")


def test_labels_are_as_long_as_they_must_be(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / name, []) for name in ("a/seed1", "b/seed1", "b/seed2")]
    assert [run.label for run in with_labels([read_run(path) for path in paths[1:]])] == ["seed1", "seed2"]
    assert [run.label for run in with_labels([read_run(path) for path in paths])] == ["a/seed1", "b/seed1", "b/seed2"]


def test_a_moving_mean_lies_in_its_band_and_keeps_every_step() -> None:
    raw, mean = smooth(Series("a", list(range(40)), [float(k % 2) for k in range(40)]))
    assert raw.faint and raw.y[1] == 1.0 and len(mean.y) == 40
    assert mean.y[20] == pytest.approx(0.4)  # 18 to 22: the even ones are 0
    # Five values 0 1 0 1 0: standard deviation sqrt(0.3), so 1.96 * sqrt(0.3 / 5) to each side.
    assert mean.high[20] - mean.y[20] == pytest.approx(1.96 * (0.3 / 5) ** 0.5)
    assert smooth(Series("a", [1, 2], [0.0, 1.0])) == [Series("a", [1, 2], [0.0, 1.0])]


def test_numbers_are_written_as_people_read_them() -> None:
    estimate = {"value": 0.412, "low": 0.38, "high": 0.445}
    assert interval(estimate) == "41.2 [38.0, 44.5]" and interval(None) == "-"
    assert interval({"mean": 0.5, "low": 0.5, "high": 0.5, "num": 1}) == "50.0"
    assert interval(estimate, write=number) == "0.412 [0.380, 0.445]"
    assert (percent(None), percent(0.1, "+"), number(3), number(2.0), number(None)) == (
        "-",
        "+10.0",
        "3",
        "2.000",
        "-",
    )
    assert Series("a", [1, 2, 3], [0.5, None, 0.25]).summary == "a: 0.5 at 1, 0.25 at 3, between 0.25 and 0.5"


def test_any_summary_becomes_tables() -> None:
    estimate = {"value": 0.5, "low": 0.4, "high": 0.6}
    summary = {
        "num_tasks": 3,
        "accuracy": estimate,
        "long": list(range(99)),
        "methods": {"a": {"rate": 1.0, "used": {"calls": 2}}, "b": {"rate": None}},
        "by_size": {"small": {"a": {"rate": 0.25}}},
    }
    tables = {table.title: table for table in tables_of(summary)}
    assert tables["In numbers"].rows == [["num tasks", "3"], ["accuracy", "0.500 [0.400, 0.600]"]]
    assert tables["methods"].header == ["name", "rate", "used calls"]
    assert tables["methods"].rows == [["a", "1.000", "2"], ["b", "-", "-"]]
    assert tables["by size: small"].rows == [["a", "0.250"]]
