from __future__ import annotations

from pathlib import Path

from sif_trainer.systems.jointcore.select import METHODS, group_questions
from sif_trainer.systems.jointcore.select_run import SelectConfig

DOCS = Path(__file__).parents[3] / "docs" / "jointcore.md"


def test_the_page_names_every_method_and_setting():
    text = DOCS.read_text(encoding="utf-8")
    for name in (*METHODS, *SelectConfig.__dataclass_fields__):
        assert f"`{name}`" in text
    assert f"at most {group_questions(100_000, 1)} questions" in text
    assert f"{group_questions(100_000, 4)} if four are" in text
