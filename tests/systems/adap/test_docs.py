"""The example of docs/adap.md runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs" / "adap.md"


def test_the_python_example_prints_what_it_says(capsys):
    code = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL).group(1)
    exec(compile(code, str(DOCS), "exec"), {})
    assert capsys.readouterr().out.strip() == re.search(r"print\(.*\)  # (.*)", code).group(1)
