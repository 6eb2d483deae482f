"""What docs/adap.md shows as printed is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

from sif_trainer.systems.adap import Costs
from sif_trainer.systems.adap.plan import describe, plan

DOCS = Path(__file__).parents[3] / "docs" / "adap.md"


def test_the_python_example_prints_what_it_says(capsys):
    code = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL).group(1)
    exec(compile(code, str(DOCS), "exec"), {})
    assert capsys.readouterr().out.strip() == re.search(r"print\(.*\)  # (.*)", code).group(1)


def test_the_plan_is_the_one_that_is_printed():
    costs = Costs.of(1, 10)
    rows = plan(costs, 4)
    text = DOCS.read_text(encoding="utf-8")
    assert f"```text\n{describe(rows, costs)}\n```" in text
    assert all(f"`{key}`" in text for key in rows[0])
