"""Every link of README, CONTRIBUTING and docs leads somewhere; no page is out of reach."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pages import PAGES, ROOT, anchors, links, name_of, prose


def test_every_link_resolves() -> None:
    found = list(links())
    assert len(found) > 80
    for page, target in found:
        where = f"{name_of(page)}: ({target})"
        if target.startswith("http"):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]{2,}(/[\w./#~%-]*)?", target), where
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT) and file.exists(), f"{where}: no such file"
        assert not anchor or anchor in anchors(file), f"{where}: no such heading"


def test_every_page_is_linked() -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for page, target in links() if "://" not in target}
    for page in PAGES:
        assert page in linked or page.name in ("README.md", "CONTRIBUTING.md", "index.md"), f"{name_of(page)}: no link"


def test_no_code_is_set_by_indentation() -> None:
    """Such a block has no language, so that nothing would run it."""
    for page in PAGES:
        lines = prose(page).splitlines()
        for before, line in zip(["", *lines], lines, strict=False):
            assert before or not line.startswith("    "), f"{name_of(page)}: '{line.strip()}' needs a fence"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150
