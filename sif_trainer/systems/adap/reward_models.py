"""Scorers that are models: a sequence-classification reward model, and a process reward model.

    RewardModel.load("path/to/model").score(problem, candidates)
    ProcessRewardModel.load("path/to/model", separator="<extra_0>", aggregate="last")

The model reads the prompt as the user's turn and the candidate as the assistant's, through its own chat template;
without one, their texts in turn. A candidate that does not fit `max_tokens` has no score, because a part of it would
get a wrong one. The published pipeline applies the softmax of a process reward model twice, which squeezes every score
into [0.27, 0.73] and bends means and products; here it is applied once.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sif_trainer.policy.checkpoint import locate
from sif_trainer.policy.policy import Prompt
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.systems.adap.parts import Candidate, Problem

if TYPE_CHECKING:
    import torch

AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "last": lambda scores: scores[-1],
    "min": min,
    "mean": lambda scores: sum(scores) / len(scores),
    "product": math.prod,
}


class _Reader:
    """A model and its tokenizer; reads pairs of prompt and answer in batches, longest first. Threads take turns."""

    relative = False

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 8, max_tokens: int = 4096) -> None:
        if batch_size < 1 or max_tokens < 1:
            raise UserError(f"batch_size is {batch_size} and max_tokens is {max_tokens}; each must be 1 or more")
        self.model, self.tokenizer = model.eval(), tokenizer
        self.batch_size, self.max_tokens = batch_size, max_tokens
        pad_id = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self._pad_id = 0 if pad_id is None else pad_id
        self._turn = threading.Lock()

    def encode(self, prompt: Prompt, answer: str) -> list[int]:
        """Return the ids of a prompt with its answer."""
        turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        if self.tokenizer.chat_template is None:
            text = "\n\n".join([*(turn["content"] for turn in turns), answer])
            return list(self.tokenizer.encode(text))
        turns.append({"role": "assistant", "content": answer})
        text = self.tokenizer.apply_chat_template(turns, tokenize=False)
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def read(self, texts: Sequence[list[int]]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (place, the model's logits, in float32 on the CPU) for every text that is not too long."""
        import torch

        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        fitting = [place for place in order if 0 < len(texts[place]) <= self.max_tokens]
        for start in range(0, len(fitting), self.batch_size):
            places = fitting[start : start + self.batch_size]
            width = len(texts[places[0]])
            rows = [texts[place] + [self._pad_id] * (width - len(texts[place])) for place in places]
            mask = [[1] * len(texts[place]) + [0] * (width - len(texts[place])) for place in places]
            device = self.model.device
            with self._turn, torch.no_grad():
                output = self.model(
                    input_ids=torch.tensor(rows, device=device), attention_mask=torch.tensor(mask, device=device)
                )
            yield from zip(places, output[0].float().cpu(), strict=True)


class RewardModel(_Reader):
    """A sequence-classification model: its one logit, or with several labels the probability of the last."""

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 8, max_tokens: int = 4096) -> None:
        super().__init__(model, tokenizer, batch_size, max_tokens)
        self.model.config.pad_token_id = self._pad_id  # by which such a model finds a text's last token

    @classmethod
    def load(cls, model: str, dtype: str = "auto", batch_size: int = 8, max_tokens: int = 4096) -> RewardModel:
        """Load from a folder or the hub. Raises `UserError` for what is no sequence-classification model."""
        from transformers import AutoModelForSequenceClassification

        return cls(*_load(model, AutoModelForSequenceClassification, dtype), batch_size, max_tokens)

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> list[float | None]:
        scores: list[float | None] = [None] * len(candidates)
        texts = [self.encode(problem.prompt, candidate.text) for candidate in candidates]
        for place, logits in self.read(texts):
            scores[place] = float(logits[0] if len(logits) == 1 else logits.softmax(-1)[-1])
        return scores


class ProcessRewardModel(_Reader):
    """A token-classification model that judges each step at the separator behind it.

    A step's score is the probability of the last label; `aggregate` makes one of them: `last`, `min`, `mean`,
    `product`. A candidate without a step has no score.

    Raises:
        UserError: for an unknown aggregate, and a separator that is not one token of the model's.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        separator: str,
        aggregate: str = "last",
        batch_size: int = 8,
        max_tokens: int = 4096,
    ) -> None:
        super().__init__(model, tokenizer, batch_size, max_tokens)
        if aggregate not in AGGREGATES:
            known = ", ".join(AGGREGATES)
            raise UserError(f"there is no aggregate '{aggregate}'{nearest(aggregate, AGGREGATES)}; there are {known}")
        ids = tokenizer.encode(separator, add_special_tokens=False)
        if len(ids) != 1:
            raise UserError(f"the separator {separator!r} is {len(ids)} tokens of this model; it must be a single one")
        self.separator, self._separator_id, self.aggregate = separator, ids[0], AGGREGATES[aggregate]

    @classmethod
    def load(
        cls,
        model: str,
        separator: str = "<extra_0>",
        aggregate: str = "last",
        dtype: str = "auto",
        batch_size: int = 8,
        max_tokens: int = 4096,
        trust_remote_code: bool = False,
    ) -> ProcessRewardModel:
        """Load from a folder or the hub; `trust_remote_code` runs the model's own code, which some need."""
        from transformers import AutoModel, AutoModelForTokenClassification

        kind = AutoModel if trust_remote_code else AutoModelForTokenClassification
        return cls(*_load(model, kind, dtype, trust_remote_code), separator, aggregate, batch_size, max_tokens)

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> list[float | None]:
        return [self.aggregate(steps) if steps else None for steps in self.step_scores(problem, candidates)]

    def step_scores(self, problem: Problem, candidates: Sequence[Candidate]) -> list[list[float]]:
        """Return the scores of each candidate's steps; none where it has none or does not fit."""
        steps = [split_steps(candidate.text.replace(self.separator, "")) for candidate in candidates]
        texts = [
            self.encode(problem.prompt, "".join(step + self.separator for step in own)) if own else [] for own in steps
        ]
        found: list[list[float]] = [[] for _ in candidates]
        for place, logits in self.read(texts):
            at = [number for number, token in enumerate(texts[place]) if token == self._separator_id]
            found[place] = logits[at[-len(steps[place]) :]].softmax(-1)[:, -1].tolist()
        return found


def split_steps(text: str) -> list[str]:
    """The steps of a solution: what blank lines part, else its lines; stripped, and without empty ones."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip()]
    return blocks if len(blocks) > 1 else [line.strip() for line in text.splitlines() if line.strip()]


def _load(name: str, kind: Any, dtype: str, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """Load (model, tokenizer), onto the accelerator if there is one; float32 by default where there is none."""
    import torch
    from transformers import AutoTokenizer

    device = str(torch.accelerator.current_accelerator(check_available=True) or "cpu")
    dtype = "float32" if dtype == "auto" and device == "cpu" else dtype
    place = locate(name).name
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=trust_remote_code)
        model, report = kind.from_pretrained(
            place, dtype=dtype, trust_remote_code=trust_remote_code, output_loading_info=True
        )
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"cannot load '{name}' as a reward model: {str(error).strip().splitlines()[0]}") from error
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise UserError(f"'{name}' is no such reward model: it has no weights for {missing}")
    return model.to(device), tokenizer
