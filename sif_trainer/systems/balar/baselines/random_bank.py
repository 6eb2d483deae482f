"""BALAR with its own bank and belief, but any open question instead of the one that tells most."""

from __future__ import annotations

import random
from typing import Any

from sif_trainer.systems.balar.loop import CaseRun


class RandomBank(CaseRun):
    """Stops and expands as BALAR does; draws the pair to ask from the case's name and the number of questions."""

    def _decide(self) -> dict[str, Any]:
        decision = super()._decide()
        if decision["action"] != "ask":
            return decision
        generator = random.Random(f"{self.case.id} {len(self.state.spent)}")
        return {**decision, "pair": generator.choice(self.state.open_pairs())}
