"""What recipes that sample from a policy say in the same words, and the sampling and prompts that follow from it.

@dataclass(frozen=True)
class EvalRecipe(DecodingRecipe): ...       # declares the fields, with its own defaults and help

recipe.sample_with(certainty=True), recipe.prompt_of("1 + 1 = ?")
"""

from __future__ import annotations

from sif_trainer.policy.policy import Prompt, Sampling, Windows


class DecodingRecipe:
    """The fields of decoding and prompts; no dataclass itself, so that fields stay in the order of each recipe."""

    temperature: float
    top_p: float
    top_k: int
    max_completion_length: int
    stop: list[str]
    seed: int
    system_prompt: str | None
    chat: bool

    def sample_with(self, certainty: bool = False, windows: Windows | None = None) -> Sampling:
        """Return how a completion is drawn; the arguments are what is measured on it."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            max_tokens=self.max_completion_length,
            stop=tuple(self.stop),
            seed=self.seed,
            certainty=certainty,
            windows=windows,
        )

    def prompt_of(self, text: str) -> Prompt:
        """Return what the model is asked: a chat of the text, or plain text."""
        if not self.chat:
            return "\n\n".join(filter(None, [self.system_prompt, text]))
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        return [*system, {"role": "user", "content": text}]
