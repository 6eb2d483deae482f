"""Hook of mkdocs: source files that the docs name become pages of the site, and their names links to these pages.

A path such as `feedback/sif.py`, `tests/runs/test_folder.py::test_name` or `smoke/quickstart` in inline code becomes a
link, and a link such as `[…](../sif_trainer/feedback/sif.py)` works here as in a file browser.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
HOMES = ("{}", "sif_trainer/{}", "recipes/{}.yaml")  # where a path of the docs may lie
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "bash", ".slurm": "bash", ".txt": "text"}
IN_CODE = re.compile(r"`(?P<path>[\w.-]+/[\w./-]*\w)(?:::(?P<name>\w+))?`")
IN_HTML = re.compile(
    r'(?<!">)(?<!<summary>Source code in )<code>(?P<path>[\w.-]+/[\w./-]*\w)(?:::(?P<name>\w+))?</code>'
)
LINK = re.compile(r"\]\((?:\.\./)+(?P<path>[^)#]+)\)")


def source(path: str) -> Path | None:
    """The file that a path of the docs names, relative to the project; None if there is none."""
    files = (Path(home.format(path)) for home in HOMES)
    return next((file for file in files if file.suffix in LANGUAGES and (ROOT / file).is_file()), None)


def page_of(file: Path) -> str:
    """Where the page of a source file is, relative to the docs."""
    return f"source/{file.as_posix()}.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each source file that a page names."""
    texts = [page.content_string for page in files.documentation_pages()]
    paths = {match["path"] for text in texts for pattern in (IN_CODE, LINK) for match in pattern.finditer(text)}
    for file in sorted({file for file in map(source, paths) if file}):
        text = (ROOT / file).read_text(encoding="utf-8")
        content = (
            f"---\nsearch:\n  exclude: true\nhide: [navigation, toc]\n---\n# {file.as_posix()}\n\n"
            f"~~~~~~ {LANGUAGES[file.suffix]}\n{text}\n~~~~~~\n"
        )
        files.append(File.generated(config, page_of(file), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to source files lead to their pages."""

    def to_page(match: re.Match[str]) -> str:
        up = "../" * page.file.src_uri.count("/")
        return f"]({up}{page_of(Path(match['path']))})" if source(match["path"]) else match[0]

    return LINK.sub(to_page, markdown)


def on_page_content(html: str, page: Page, files: Files, **_: object) -> str:
    """Let names of source files lead to their pages, and to the line where a test begins."""

    def to_link(match: re.Match[str]) -> str:
        file = source(match["path"])
        target = files.get_file_from_path(page_of(file)) if file else None
        if target is None or file is None:
            return match[0]
        return f'<a href="{get_relative_url(target.url, page.url)}{_line(file, match["name"])}">{match[0]}</a>'

    return html if page.file.src_uri.startswith("source/") else IN_HTML.sub(to_link, html)


def _line(file: Path, name: str | None) -> str:
    """The anchor of the line that defines a name."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if name and re.match(rf"\s*(def|class) {name}\b", line)]
    return f"#__span-0-{numbers[0]}" if numbers else ""
