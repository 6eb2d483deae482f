"""What a grader takes and gives: `Item` in, `Grade` out. Plain data, importable without sympy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["correct", "wrong", "unparsable"]
Kind = Literal["answer", "response"]


@dataclass(frozen=True)
class Item:
    """One thing to grade: an answer (content of the final box) or a whole reply against a reference answer."""

    prediction: str
    gold: str
    rule: str = "math"
    kind: Kind = "response"
    fields: Mapping[str, Any] = field(default_factory=dict)  # what the rule needs: unit, tolerance, type, options, ...


@dataclass(frozen=True)
class Grade:
    """Score from 0 to 1, the verdict, the answer that was read, and one phrase that says why.

    `verdict` is "correct" only when the score is 1; partial credit keeps its score and the verdict "wrong".
    "unparsable" means that no answer was found, or that it (or the reference) could not be read.
    """

    score: float
    verdict: Verdict
    extracted: str | None
    why: str

    @classmethod
    def correct(cls, extracted: str, why: str) -> Grade:
        return cls(1.0, "correct", extracted, why)

    @classmethod
    def wrong(cls, extracted: str, why: str) -> Grade:
        return cls(0.0, "wrong", extracted, why)

    @classmethod
    def unparsable(cls, extracted: str | None, why: str) -> Grade:
        return cls(0.0, "unparsable", extracted, why)
