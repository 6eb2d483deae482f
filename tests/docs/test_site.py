"""The docs build as a site without a warning, and the site asks nothing of the network."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    for library in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(library, reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "launch/mkdocs.yml"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    yield folder


def test_every_page_is_there_and_links_lead_to_source_files(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page
    method = (site / "method.html").read_text(encoding="utf-8")
    targets = re.findall(r'href="(source/[^"#]+)(?:#([\w-]+))?"', method)
    assert len(targets) > 30
    for path, anchor in targets:
        page = (site / path).read_text(encoding="utf-8")
        assert not anchor or f'id="{anchor}"' in page, f"{path}#{anchor}"


def test_settings_show_their_help(site: Path) -> None:
    page = (site / "api" / "training.html").read_text(encoding="utf-8")
    for help_text in ("Coefficient of the KL term", "windows of K in which a response must lead", "Longest response"):
        assert help_text in page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text):
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), f"{page}: {tag}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(address: str, scheme: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with playwright.sync_playwright() as started:
        if program is None and not Path(started.chromium.executable_path).exists():
            pytest.skip("needs a browser: neither chromium nor google-chrome nor playwright's own is installed")
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(color_scheme=scheme)
        asked: list[str] = []
        wrong: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda response: wrong.append(response.url) if response.status >= 400 else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for name in ("index", "method", "api/training"):
            page.goto(f"{address}/{name}.html")
        assert page.get_attribute("body", "data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
        page.click(".md-search__input")
        page.keyboard.type("keep rate")
        page.wait_for_function("document.querySelector('.md-search-result__meta').innerText.includes('matching')")
        browser.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert wrong == []
