"""Every setting of the loop; `BalarConfig()` is the paper's for situation puzzles and detective cases.

    sif balar run RECIPE alpha=0.1 budget=asks

A study's recipe extends this class with its data and its model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sif_trainer.runs.errors import UserError


@dataclass(frozen=True, kw_only=True)
class BalarConfig:
    """Settings of the agent. Defaults are the paper's where it states one, else its released code's."""

    max_asks: int = field(default=25, metadata={"help": "Questions per case (T_ask). Paper: 25."})
    max_rounds: int = field(default=100, metadata={"help": "Rounds per case: asking and expanding each take one."})
    alpha: float = field(
        default=0.3,
        metadata={"help": "Stop at a belief of 1 - alpha. Paper: 0.3; 0.1 for iCraft-MD. Between 0 and 1, exclusive."},
    )
    beta: float = field(
        default=0.5,
        metadata={"help": "Without options: stop when this share of dimensions is that certain. Paper: 0.5. (0, 1]."},
    )
    num_dimensions: int = field(default=5, metadata={"help": "Dimensions to start with (p). Paper: 5; iCraft-MD 1."})
    max_values: int = field(default=4, metadata={"help": "Values of a dimension at most (n_max). Released: 4."})
    num_questions: int = field(default=10, metadata={"help": "Questions to start with (|Q|). Paper: 10; iCraft-MD 2."})
    max_choices: int = field(
        default=4, metadata={"help": "Choices of a question at most (c_max); 2 asks yes or no (situation puzzles)."}
    )
    num_new_questions: int = field(default=4, metadata={"help": "Questions per expansion at most. Released: 4."})
    num_uncertain: int = field(
        default=2, metadata={"help": "Most uncertain dimensions that new questions are about, with the new one."}
    )
    kappa: float = field(
        default=1.0,
        metadata={"help": "Expand where the entropy gap exceeds kappa * best information * budget left. 0: always."},
    )
    budget: Literal["rounds", "asks"] = field(
        default="rounds", metadata={"help": "The budget left in that rule. Released: rounds."}
    )
    max_states: int = field(
        default=50_000, metadata={"help": "The joint belief stays below this many states, from the start on."}
    )
    answer_mode: Literal["free", "choice"] = field(
        default="free", metadata={"help": "Users answer in their words (paper) or pick a choice (released)."}
    )
    verifier: bool = field(default=False, metadata={"help": "Check each likelihood table, redo it once if it fails."})
    likely: float = field(default=0.8, metadata={"help": "Weight of the label `likely`. Paper: 0.8."})
    neutral: float = field(default=0.5, metadata={"help": "Weight of the label `neutral`. Paper: 0.5."})
    unlikely: float = field(default=0.2, metadata={"help": "Weight of the label `unlikely`. Paper: 0.2."})
    skip_spent_tables: bool = field(
        default=True,
        metadata={"help": "On expanding, make no tables for pairs that were asked. Released: false; same belief."},
    )
    # Beyond the paper; all off.
    replay: bool = field(
        default=False,
        metadata={"help": "Apply past answers to a new dimension, whose prior then does not see them. Paper: false."},
    )
    lookahead: Literal[1, 2] = field(
        default=1, metadata={"help": "2 adds the expected information of the best next question. Paper: 1."}
    )
    lookahead_width: int = field(default=8, metadata={"help": "Pairs of most information that are looked ahead."})
    cost_power: float = field(
        default=0.0, metadata={"help": "Choose by information / cost ** cost_power. Paper: 0 (costs ignored)."}
    )

    def __post_init__(self) -> None:
        checks = {
            "alpha": (0 < self.alpha < 1, "above 0 and below 1"),
            "beta": (0 < self.beta <= 1, "above 0 and at most 1"),
            "kappa": (self.kappa >= 0, "0 or more"),
            "cost_power": (self.cost_power >= 0, "0 or more"),
            "max_states": (self.max_states > 2, "3 or more"),
            "likely": (self.likely > 0, "above 0"),
            "neutral": (self.neutral > 0, "above 0"),
            "unlikely": (self.unlikely > 0, "above 0"),
        }
        checks |= {name: (getattr(self, name) >= 2, "2 or more") for name in ("max_values", "max_choices")}
        checks |= {name: (getattr(self, name) >= 0, "0 or more") for name in ("max_asks", "max_rounds")}
        checks |= {
            name: (getattr(self, name) >= 1, "1 or more")
            for name in ("num_dimensions", "num_questions", "num_new_questions", "lookahead_width")
        }
        checks["num_uncertain"] = (self.num_uncertain >= 0, "0 or more")
        for name, (valid, bounds) in checks.items():
            if not valid:
                raise UserError(f"{name} is {getattr(self, name)}; it must be {bounds}")
        if not self.likely >= self.neutral >= self.unlikely or self.likely == self.unlikely:
            weights = f"likely {self.likely}, neutral {self.neutral} and unlikely {self.unlikely}"
            raise UserError(f"the labels weigh {weights}; the weights must fall in this order")
