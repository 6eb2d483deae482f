"""What BALAR is held against, each under the same budget of questions and with the same users.

    answer = STRATEGIES["reactive"](Dialogue(case, speaker, environment, config, trace, settings))

A strategy leads a `Dialogue` to its end and may return the answer; else the answer is one more call, which sees what
was said. Only `random_bank` is BALAR itself, with another choice of question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sif_trainer.systems.balar.baselines.conformal import conformal_pursuit
from sif_trainer.systems.balar.baselines.dialogue import Dialogue
from sif_trainer.systems.balar.baselines.prompting import direct, proactive, reactive, tree_of_thoughts
from sif_trainer.systems.balar.baselines.uncertainty import uncertainty_of_thoughts

Strategy: TypeAlias = Callable[[Dialogue], str | None]

STRATEGIES: Mapping[str, Strategy] = {
    "direct": direct,
    "reactive": reactive,
    "proactive": proactive,
    "tree_of_thoughts": tree_of_thoughts,
    "uncertainty_of_thoughts": uncertainty_of_thoughts,
    "conformal_pursuit": conformal_pursuit,
}
