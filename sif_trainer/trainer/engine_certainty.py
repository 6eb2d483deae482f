"""Certainty from inside TRL's colocated vLLM, in place of a scoring pass: `certainty_source: engine`.

The engine records certainty and entropy of every distribution that it draws a token from (policy/vllm_certainty.py);
log-probabilities of the drawn tokens TRL has from vLLM anyway. It spares a pass only where TRL makes none itself: with
`vllm_importance_sampling_correction: true`, TRL's default, certainty comes out of TRL's own pass for free.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.nn.utils.rnn import pad_sequence

from sif_trainer.certainty.head import TokenScores
from sif_trainer.certainty.recording import Recording
from sif_trainer.policy.vllm_engine import MASKS
from sif_trainer.trainer.scoring import Rollout

if TYPE_CHECKING:
    from sif_trainer.trainer.config import SIFConfig


class EngineCertainty:
    """The recording of one trainer's engine."""

    def __init__(self) -> None:
        self.recording = Recording()

    @contextmanager
    def built_in(self) -> Iterator[None]:
        """While TRL makes its engine, with fixed arguments, add one that makes it record."""
        from trl.generation import vllm_generation

        from sif_trainer.policy.vllm_certainty import certainty_processor, check_recorded, choose_runner

        processor, plain = certainty_processor(self.recording), vllm_generation.LLM
        choose_runner()
        vllm_generation.LLM = functools.partial(plain, logits_processors=[processor])
        try:
            yield
        finally:
            vllm_generation.LLM = plain
        check_recorded(processor)

    def scores(self, rollout: Rollout, device: torch.device) -> TokenScores:
        """Return what was recorded of a rollout's completions, (B, T) fp32 each, 0 on padding, and forget all of it.

        Raises ValueError when a token was not recorded, or there are no log-probabilities.
        """
        rows = zip(rollout.prompt_ids, rollout.completion_ids, strict=True)
        recorded = [self.recording.scores(prompt, completion) for prompt, completion in rows]
        self.recording.clear()
        if rollout.log_probs is None:
            raise ValueError("the engine returned no log-probabilities of its tokens")
        log_probs = [torch.tensor([torch.nan if p is None else p for p in row]) for row in rollout.log_probs]
        certainty, entropy = ([row[i] for row in recorded] for i in range(2))
        columns = {"log_probs": log_probs, "entropy": entropy, "certainty": certainty}
        return TokenScores(**{name: pad_sequence(rows, batch_first=True).to(device) for name, rows in columns.items()})


def check_engine_certainty(config: SIFConfig) -> None:
    """Refuse `certainty_source: engine` where the engine cannot give what the rule reads, or not to this process.

    Raises:
        ValueError: with what to change.
    """
    if config.certainty_source != "engine":
        return
    wanted = "certainty_source='engine'"
    if not config.use_vllm:
        raise ValueError(f"{wanted} records certainty inside vLLM: set use_vllm=true, or certainty_source=model")
    if config.vllm_mode != "colocate":
        raise ValueError(
            f"{wanted} cannot read what a vLLM server has recorded: set vllm_mode=colocate, or certainty_source=model"
        )
    reads = config.find_rule().reads
    if "step_confidence" in reads:
        raise ValueError(
            f"{wanted} records certainty, entropy and log-probabilities; feedback='{config.feedback}' reads "
            "step_confidence as well: set certainty_source=model"
        )
    reshaping = {
        "top_p": config.top_p != 1,
        "top_k": bool(config.top_k),
        "min_p": bool(config.min_p),
        "repetition_penalty": config.repetition_penalty != 1,
        "generation_kwargs": bool(config.generation_kwargs),
    }
    if "log_prob_mean" in reads and (named := [name for name, on in reshaping.items() if on]):
        raise ValueError(
            f"{wanted} gives log-probabilities after {', '.join(named)}, but feedback='{config.feedback}' reads "
            "those of the policy: leave these out, or set certainty_source=model"
        )
    masks = [name for name in MASKS if (config.generation_kwargs or {}).get(name)]
    if config.vllm_structured_outputs_regex is not None:
        masks.append("vllm_structured_outputs_regex")
    if masks:
        raise ValueError(
            f"{wanted}: under {', '.join(masks)} vLLM masks logits before they can be recorded; leave out, or set "
            "certainty_source=model"
        )
