"""The docs build as a site without a warning, which asks nothing of the network, on a server as well as from disk."""

from __future__ import annotations

import contextlib
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
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("index", "benchmarks", "recipes", "api/training", "source/sif_trainer/feedback/sif.py")
HARD_CODED = {"scrollable-region-focusable"}  # the theme's boxes around wide tables; browsers focus them by themselves


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; the tests are few, because each process that has one of them builds it."""
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
    return folder


def test_pages_and_links(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page
    method = (site / "method.html").read_text(encoding="utf-8")
    targets = re.findall(r'href="(source/[^"#]+)(?:#([\w-]+))?"', method)
    assert len(targets) > 30
    for path, anchor in targets:
        page = (site / path).read_text(encoding="utf-8")
        assert not anchor or f'id="{anchor}"' in page, f"{path}#{anchor}"
    training = (site / "api" / "training.html").read_text(encoding="utf-8")
    for help_text in ("Coefficient of the KL term", "windows of K in which a response must lead", "Longest response"):
        assert help_text in training
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text):
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), f"{page}: {tag}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of the site on a server of this machine."""
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


def test_in_a_browser(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python (extra dev)"
    )
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with served(site) as address, playwright.sync_playwright() as started:
        if program is None and not Path(started.chromium.executable_path).exists():
            pytest.skip("needs a browser: neither chromium nor google-chrome nor playwright's own is installed")
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for base, scheme in ((address, "light"), (address, "dark"), (site.as_uri(), "light")):
            page = browser.new_page(color_scheme=scheme, reduced_motion="reduce")
            faults = watch(page, base)
            for name in PAGES:
                page.goto(f"{base}/{name}.html")
                if base == address:  # axe itself reads style sheets, which no page may do from disk
                    found = axe.Axe().run(page).response["violations"]
                    faults += [
                        f"{name}, {scheme}: {one['id']} {one['nodes'][0]['html']}"
                        for one in found
                        if one["impact"] in ("serious", "critical") and one["id"] not in HARD_CODED
                    ]
            assert page.get_attribute("body", "data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
            page.goto(f"{base}/api/training.html")
            lines = page.locator(".doc-signature").all_inner_texts()
            assert len(lines) > 5 and max(len(line) for text in lines for line in text.splitlines()) < 100
            page.click(".md-search__input")
            page.keyboard.type("keep rate")
            page.wait_for_function("document.querySelector('.md-search-result__meta').innerText.includes('matching')")
            assert faults == []
        browser.close()


def watch(page: Any, base: str) -> list[str]:
    """What a page complains of or asks for elsewhere, in a list that grows."""
    faults: list[str] = []
    own = (base, "data:", "blob:", "about:")
    page.on("request", lambda request: None if request.url.startswith(own) else faults.append(request.url))
    page.on("response", lambda response: faults.append(response.url) if response.status >= 400 else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if line.type in ("error", "warning") else None)
    return faults
