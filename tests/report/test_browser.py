"""Pages of real runs, opened in a browser: nothing fails, nothing leaves the page, everything can be reached."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_runs import COMMANDS, make_run, sample

from sif_trainer.cli.report import with_findings
from sif_trainer.report.page import write_page
from sif_trainer.report.run import read_run

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python (extra dev)")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
Show = Callable[..., "Opened"]
PHONE = {"width": 390, "height": 800}
DESK = {"width": 1280, "height": 900}
MOST_MILLISECONDS = 200
CLICK = """async (id) => {
  const start = performance.now();
  document.getElementById(id).click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""  # from the click to the frame that shows what it did


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    with sync_api.sync_playwright() as playwright:
        if program is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip(f"needs a browser: none of {', '.join(PROGRAMS)} is installed, nor playwright's own")
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Show]:
    """`show(folder, …, color_scheme="dark")`: write the page of the runs and open it; closed when the test ends."""
    shown: list[Opened] = []

    def open_page(*folders: Path, **options: Any) -> Opened:
        path = tmp_path / "page.html"
        write_page([with_findings(read_run(folder)) for folder in folders], path)
        shown.append(Opened(browser, path, **options))
        return shown[-1]

    yield open_page
    for opened in shown:
        opened.context.close()


class Opened:
    """A page that is open, and what it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)  # a machine that tests share can be slow
        self.faults: list[str] = []
        self.page.on("console", lambda line: self.faults.append(line.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self._request(request.url, path))
        self.page.goto(path.as_uri())

    def _request(self, url: str, path: Path) -> None:
        if url != path.as_uri() and not url.startswith(("blob:", "data:")):
            self.faults.append(f"request {url[:200]}")

    def num_empty_charts(self) -> int:
        """How many of the page's charts, of which there are some, show no line and no point."""
        charts = self.page.locator(".chart[data-plot]").all()
        assert charts
        return sum(chart.locator(".scatterlayer .trace path").count() == 0 for chart in charts)

    def serious_faults(self) -> list[tuple[str, str]]:
        """What a screen reader or a weak eye would stumble over."""
        found = axe.Axe().run(self.page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("kind", [*COMMANDS, "study"])
def test_a_page_of_every_kind(runs: dict[str, Path], show: Show, kind: str) -> None:
    opened = show(runs[kind])
    assert opened.page.locator(".verdict").inner_text() and opened.num_empty_charts() == 0
    has_completions = kind not in ("jointcore", "balar", "study")
    assert (opened.page.locator("#group .members article").count() > 0) == has_completions
    assert opened.faults == []


def test_runs_of_all_kinds_on_one_page(runs: dict[str, Path], show: Show) -> None:
    opened = show(*runs.values())
    assert opened.page.locator(".run").count() == len(runs) and opened.num_empty_charts() == 0
    assert opened.serious_faults() == [] and opened.faults == []


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": PHONE}], ids=["dark", "phone"])
def test_other_eyes_and_screens(runs: dict[str, Path], show: Show, options: dict) -> None:
    opened = show(runs["train"], **options)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= opened.page.viewport_size["width"]
    assert opened.serious_faults() == []
    background = "getComputedStyle(document.body).backgroundColor"
    before = opened.page.evaluate(background)
    opened.page.click("#theme")
    assert opened.page.evaluate(background) != before
    assert opened.serious_faults() == [] and opened.faults == []


def test_numbers_behind_a_plot(runs: dict[str, Path], show: Show) -> None:
    opened = show(runs["train"])
    with opened.page.expect_download() as download:
        opened.page.click("text=CSV of Held-out accuracy")
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "series,step,accuracy,low,high" and lines[1].startswith("accuracy,0,")
    opened.page.click("summary:has-text('Numbers of Held-out accuracy')")
    rows = opened.page.locator("details.numbers table").first.locator("tbody tr")
    rows.first.wait_for()  # they are made when they are asked for
    assert rows.count() == len(lines) - 1
    assert opened.faults == []


def test_harm_does_nothing(hostile: Path, show: Show) -> None:
    opened = show(hostile)
    texts = []
    for _ in range(6):
        texts.append(opened.page.locator("#group article pre").first.text_content())
        if opened.page.locator("#next").is_enabled():
            opened.page.click("#next")
    assert "<script>window.harmed = 1</script><img src=x" in texts[0] and "{{ 7 * 7 }}" in texts[1]
    assert "\x1b" not in texts[2] and "␛[31m" in texts[2] and "\\u202e" in texts[3] and "\\ud83d" in texts[4]
    assert len(texts[5]) == 20_000
    assert "980,000 more characters" in opened.page.locator("#group").text_content()
    assert opened.page.evaluate("window.harmed") is None and opened.faults == []


def test_five_thousand_completions(show: Show, tmp_path: Path) -> None:
    words = [f"word{k} " for k in range(40)]
    samples = [
        sample(step, group, member, "".join(words), tokens=words, token_certainty=[k / 4 for k in range(40)],
               keep=group != 3)
        for step in range(1, 126)
        for group in range(20)
        for member in (0, 1)
    ]  # fmt: skip
    samples[2000]["prompt"] = "a Needle in it"
    opened = show(make_run(tmp_path / "run", samples))
    page, position = opened.page, opened.page.locator("#position")
    assert position.inner_text() == "Group 1 of 2500"
    frame = min(choose(page, "#tag", "", "nothing") for _ in range(5))  # how long this machine takes over no work
    busy = frame > MOST_MILLISECONDS / 4  # with other work: then its times say nothing of the page
    assert min(page.evaluate(CLICK, "next") for _ in range(5)) < MOST_MILLISECONDS or busy
    assert position.inner_text() == "Group 6 of 2500"
    page.locator("#next").focus()
    page.keyboard.press("ArrowLeft")
    assert position.inner_text() == "Group 5 of 2500"
    filtered = min(choose(page, "#tag", value) for value in ("with nothing kept", "", "with nothing kept"))
    assert filtered < MOST_MILLISECONDS or busy
    assert position.inner_text() == "Group 1 of 125"
    choose(page, "#where", "step 7")
    assert position.inner_text() == "Group 1 of 1" and page.locator("#next").is_disabled()
    choose(page, "#tag", "")
    choose(page, "#where", "")
    choose(page, "#words", "needle", "input")
    assert position.inner_text() == "Group 1 of 1" and "a Needle in it" in page.locator("#group").inner_text()
    choose(page, "#words", "nowhere", "input")
    assert position.inner_text() == "No group is like this." and opened.faults == []


def choose(page: Any, selector: str, value: str, event: str = "change") -> float:
    """Set a field and return the milliseconds until the frame that shows what it did."""
    return page.evaluate(
        """async ([selector, value, event]) => {
          const field = document.querySelector(selector), start = performance.now();
          field.value = value;
          field.dispatchEvent(new Event(event));
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          return performance.now() - start;
        }""",
        [selector, value, event],
    )


def test_the_vote_is_told_in_words_as_well(show: Show, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sample(member=0), sample(member=1)])
    page = show(run).page
    assert page.locator("#profiles").get_attribute("aria-label") == (
        "Ranked profiles: response 1, kept: 3.00, 2.00, 1.00; response 2, winner: 3.00, 2.00, 2.00"
    )
    rows = [row.inner_text().split() for row in page.locator(".matrix tbody tr").all()]
    assert rows == [["1", "kept", "·", "0", "0"], ["2", "winner", "3", "·", "1"]]
    assert page.locator(".matrix td.won").all_inner_texts() == ["3"]
