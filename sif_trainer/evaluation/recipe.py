"""What an evaluation recipe says. The defaults are the paper's decoding; `docs/evaluation.md` lists the fields.

sif eval evaluate/sif12 model=path/to/checkpoint data_dir=data num_samples=16
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sif_trainer.policy import Prompt, Sampling
from sif_trainer.policy.recipe import DecodingRecipe
from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.benchmarks import expand
from sif_trainer.tasks.load import Problem


@dataclass(frozen=True)
class EvalRecipe(DecodingRecipe):
    """One model, some benchmarks, and how answers are drawn (paper: the independent evaluator of its experiments)."""

    model: str = field(
        metadata={
            "help": "Folder, hub id, .gguf file, pypi:PACKAGE, embedded:cipher, vllm:NAME, or the http address of an "
            "OpenAI-compatible server."
        }
    )
    suite: str | list[str] = field(
        metadata={"help": "A suite or benchmark by name, or a list of them: math500, [gsm8k, amc23]."}
    )
    data_dir: str | None = field(
        default=None, metadata={"help": "Folder of the benchmarks' JSON-lines files; the hub is asked if left out."}
    )
    limit: int | None = field(
        default=None, metadata={"help": "Only the first problems of each benchmark; all if left out."}
    )
    num_samples: int = field(default=8, metadata={"help": "n: samples per problem (paper: 8)."})
    k: list[int] = field(
        default_factory=list,
        metadata={"help": "Each k of pass@k, at most num_samples; num_samples itself if left out (paper: 8)."},
    )
    temperature: float = field(default=0.6, metadata={"help": "Of sampling; 0 is greedy (paper: 0.6)."})
    top_p: float = field(default=1.0, metadata={"help": "Nucleus; 1 is off (paper: 1.0)."})
    top_k: int = field(default=0, metadata={"help": "Candidates per token; 0 is off."})
    seed: int = field(default=123, metadata={"help": "Of sampling (paper: 123)."})
    max_prompt_length: int = field(
        default=1024, metadata={"help": "Tokens; longer prompts are left out and counted, never cut (paper: 1,024)."}
    )
    max_completion_length: int = field(
        default=3072, metadata={"help": "Tokens; longer responses are cut (paper: 3,072)."}
    )
    stop: list[str] = field(
        default_factory=list, metadata={"help": "Texts that end a response, besides the end-of-text token."}
    )
    system_prompt: str | None = field(default=None, metadata={"help": "Text of the system message, if any."})
    chat: bool = field(
        default=True,
        metadata={"help": "Put prompts through the chat template, where there is one; false sends plain text."},
    )
    chat_template_kwargs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Arguments of the chat template, such as {enable_thinking: false}."}
    )
    certainty: bool = field(
        default=False, metadata={"help": "Record each sample's mean self-certainty (transformers engine)."}
    )
    batch_size: int | None = field(
        default=None,
        metadata={
            "help": "Responses decoded at once (transformers), or requests in flight (server); theirs if left out."
        },
    )
    engine_options: dict[str, Any] = field(
        default_factory=dict,
        metadata={"help": "More options of the engine, such as {dtype: bfloat16} or {tensor_parallel_size: 2}."},
    )

    def __post_init__(self) -> None:
        _at_least(self, 1, "num_samples", "max_prompt_length", "max_completion_length", "limit", "batch_size")
        for k in self.k:
            if not 1 <= k <= self.num_samples:
                raise UserError(
                    f"k={k} of pass@k cannot be estimated from num_samples={self.num_samples}; draw at least k samples"
                )
        if self.temperature == 0 and self.num_samples > 1:
            raise UserError("temperature=0 gives the same answer every time; set num_samples=1, or a temperature")
        if not self.benchmarks:
            raise UserError("suite is empty; name a suite or a benchmark")
        _ = self.sampling  # refuses what no engine can do

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks' names, suites expanded."""
        return expand([self.suite] if isinstance(self.suite, str) else self.suite)

    @property
    def ks(self) -> list[int]:
        """The k of pass@k, rising."""
        return sorted(set(self.k)) or [self.num_samples]

    @property
    def sampling(self) -> Sampling:
        """How a sample is drawn."""
        return self.sample_with(certainty=self.certainty)

    @property
    def settings(self) -> dict[str, Any]:
        """All but how the engine works, which may change when a run goes on: a smaller batch, more devices."""
        return {name: value for name, value in asdict(self).items() if name not in ("batch_size", "engine_options")}

    @property
    def decoding(self) -> dict[str, Any]:
        """What two results must share to be compared: everything that shapes a sample but the model and the seed."""
        names = (
            "num_samples", "temperature", "top_p", "top_k", "max_prompt_length", "max_completion_length", "stop",
            "system_prompt", "chat", "chat_template_kwargs",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def prompt(self, problem: Problem) -> Prompt:
        """Return what the model is asked: a chat, or plain text."""
        return self.prompt_of(problem.prompt)


def _at_least(recipe: EvalRecipe, least: int, *names: str) -> None:
    for name in names:
        value = getattr(recipe, name)
        if value is not None and value < least:
            raise UserError(f"{name}={value}; it must be {least} or more")
