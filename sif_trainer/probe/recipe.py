"""What a probe adds to a training recipe: how many prompts, and how many responses are decoded at once.

sif probe train/qwen3-1.7b_math num_probe_prompts=128
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.factory import TrainRecipe


@dataclass
class ProbeRecipe(TrainRecipe):
    """A training recipe, and the size of the probe. Raises `UserError` for sizes below 1."""

    num_probe_prompts: int = field(
        default=64, metadata={"help": "Prompts that are sampled, drawn at random by the seed (paper: 64 are a step)."}
    )
    probe_batch_size: int = field(default=32, metadata={"help": "Responses decoded at once."})

    def __post_init__(self) -> None:
        for name in ("num_probe_prompts", "probe_batch_size"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}; it must be 1 or more")

    @property
    def grading_rule(self) -> str | None:
        """The rule by which responses are graded, if there are answers: the monitor's, or else the validation's."""
        return self.monitor or self.validation_rule

    @property
    def reading_rule(self) -> str | None:
        """The rule by which answers are found in responses and compared with one another."""
        return self.answer_rule or self.grading_rule


def refuse_other_sampling(config: SIFConfig) -> None:
    """Raise `UserError` for settings under which training would sample otherwise than a probe can."""
    if config.max_completion_length is None:
        raise UserError("max_completion_length is not set; a probe needs a limit, such as the training run will need")
    for name, off in (("min_p", None), ("repetition_penalty", 1.0), ("generation_kwargs", None)):
        value = getattr(config, name)
        if value not in (off, {}):
            raise UserError(f"{name}={value}: a probe does not sample in this way; leave it out to probe the policy")
