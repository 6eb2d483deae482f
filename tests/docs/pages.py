"""What the pages hold: fenced blocks, commands in the text, links and anchors of README, CONTRIBUTING and docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: `README.md:20`, `bash`, what stands in it."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}-{self.language}"


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its blocks, line numbers kept."""
    return FENCE.sub(lambda match: "\n" * match[0].count("\n"), read(page))


def blocks() -> list[Block]:
    """Every fenced block, in order."""
    return [
        Block(name_of(page), read(page)[: match.start()].count("\n") + 1, match["language"], match["text"])
        for page in PAGES
        for match in FENCE.finditer(read(page))
    ]


def inline_code() -> Iterator[tuple[str, str]]:
    """Page and text of everything between single backticks."""
    for page in PAGES:
        for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", prose(page)):
            yield name_of(page), " ".join(match[1].split())


def links() -> Iterator[tuple[Path, str]]:
    """Page and target of every link."""
    for page in PAGES:
        text = re.sub(r"`[^`]*`", "", prose(page))
        for match in re.finditer(r"!?\[[^\]]*\]\(([^)\s]+)\)", text):
            yield page, match[1]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and file browsers make them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return found
