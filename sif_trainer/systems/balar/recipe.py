"""What a recipe of `sif balar run` says: BALAR's settings, and with which cases, models and baselines.

sif balar run balar/icraft model=http://localhost:8000/v1 data=all_craft_md.jsonl
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sif_trainer.policy.load import script_of
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.inputs import Source
from sif_trainer.systems.balar.baselines import STRATEGIES
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.environments.instances import DATA_SETS

METHODS = ("balar", "random_bank", *STRATEGIES)


@dataclass(frozen=True, kw_only=True)
class ModelRecipe(BalarConfig):
    """The agent's model, and how it is asked."""

    model: str = field(
        metadata={
            "help": "The agent: folder, hub id, .gguf file, pypi:PACKAGE, vllm:NAME, scripted:FILE, an http address."
        }
    )
    label_only: bool = field(
        default=False,
        metadata={
            "help": "Choose labels by their log-probabilities instead of asking for JSON: for small local models."
        },
    )
    reason_tokens: int = field(default=40, metadata={"help": "Of the reason before a label, if label_only. 0: none."})
    max_attempts: int = field(default=10, metadata={"help": "For each structured reply. Released: 10."})
    temperature: float = field(default=0.1, metadata={"help": "Of all replies. Released: 0.1."})
    top_p: float = field(default=1.0, metadata={"help": "Nucleus; 1 is off. Released: 1."})
    seed: int = field(default=0, metadata={"help": "Of all replies."})
    show_schema: bool = field(
        default=True, metadata={"help": "Write the schema into prompts; in vain where the server enforces it."}
    )
    engine_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the engine, such as {batch_size: 16} or {model: NAME}."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("max_attempts", 1), ("reason_tokens", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; it must be {least} or more")

    @property
    def inputs(self) -> dict[str, Source | None]:
        """The files that a run reads, which must be the same when it goes on."""
        return {"model": script_of(self.model)}


@dataclass(frozen=True, kw_only=True)
class BalarRecipe(ModelRecipe):
    """A study: some cases, solved by some methods."""

    data_set: str = field(metadata={"help": f"One of {', '.join(DATA_SETS)}."})
    data: str = field(metadata={"help": "The benchmark's file; none comes with the project."})
    methods: tuple[str, ...] = field(default=("balar", "direct"), metadata={"help": f"Of {', '.join(METHODS)}."})
    limit: int | None = field(default=None, metadata={"help": "Only the first cases; all if left out."})
    user_model: str | None = field(default=None, metadata={"help": "Plays the users; the agent's model if left out."})
    judge: str | None = field(
        default=None, metadata={"help": "Judges explanations; the agent's model if left out (paper)."}
    )
    rounds: tuple[int, ...] = field(
        default=(5, 10, 15, 20, 25),
        metadata={"help": "Answer once more after so many questions (paper: Figure 9); [] makes no such calls."},
    )
    num_candidates: int = field(default=3, metadata={"help": "Questions that tree baselines weigh in a turn."})
    depth: int = field(default=3, metadata={"help": "Questions that uncertainty_of_thoughts looks ahead."})
    num_calibration: int = field(
        default=0, metadata={"help": "Cases behind the limit that conformal_pursuit is calibrated on; it needs some."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, given, known in (("methods", self.methods, METHODS), ("data_set", (self.data_set,), DATA_SETS)):
            for one in given:
                if one not in known:
                    raise UserError(f"{name}: there is no '{one}'{nearest(one, known)}; known: {', '.join(known)}")
        if not self.methods:
            raise UserError(f"methods is empty; name at least one of {', '.join(METHODS)}")
        if len(set(self.methods)) < len(self.methods):
            raise UserError(f"methods is {list(self.methods)}; name each method once")
        for name, least in (("num_candidates", 1), ("depth", 1), ("limit", 1), ("num_calibration", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise UserError(f"{name} is {value}; it must be {least} or more")
        if any(number < 1 for number in self.rounds):
            raise UserError(f"rounds is {list(self.rounds)}; each must be 1 or more")
        if "conformal_pursuit" in self.methods and (self.num_calibration < 1 or self.limit is None):
            raise UserError("conformal_pursuit is calibrated on cases behind the limit; set limit and num_calibration")

    @property
    def inputs(self) -> dict[str, Source | None]:
        scripts = {name: script_of(getattr(self, name)) for name in ("user_model", "judge")}
        return {"data": self.data, **super().inputs, **scripts}
