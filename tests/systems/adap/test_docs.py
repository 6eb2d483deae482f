"""What docs/adap.md shows as printed is what is printed."""

from __future__ import annotations

from pathlib import Path

from sif_trainer.systems.adap import Costs
from sif_trainer.systems.adap.plan import describe, plan

DOCS = Path(__file__).parents[3] / "docs" / "adap.md"


def test_the_plan_is_the_one_that_is_printed():
    costs = Costs.of(1, 10)
    rows = plan(costs, 4)
    text = DOCS.read_text(encoding="utf-8")
    assert f"```text\n{describe(rows, costs)}\n```" in text
    assert all(f"`{key}`" in text for key in rows[0])
