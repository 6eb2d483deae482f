"""Self-certainty of the tokens of a batch through a model, with log-probability and entropy of the same pass.

`add_certainty_head` patches the forward of the innermost causal language model with one more keyword, so that a call
still passes through whatever wraps the model (DDP, FSDP, ZeRO, PEFT) and their gathers and hooks run as usual:

    add_certainty_head(model, temperature=1.0)
    with torch.no_grad():
        scores = wrapped(input_ids=ids, attention_mask=mask, labels=labels, token_scores=True)

A trainer that scores old log-probabilities anyway need not run a second pass: while `record_certainty(model)` is open,
calls with `fused_lm_head=True` under no_grad, TRL's scoring pass, are answered here, and the answers are kept.

    pytest tests/certainty/test_head.py
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from sif_trainer.certainty.logits import LogitTransform, probe_head, read_transform
from sif_trainer.certainty.tiles import score_tokens

IGNORED_LABEL = -100
_RECORDING = "_certainty_recording"  # the model's attribute that holds the open recording, or None


@dataclass
class TokenScores(ModelOutput):
    """Scores of tokens 1..T-1 of each row, (B, T - 1) fp32 in nats, 0 where the token's label is -100.

    Column t belongs to token t + 1 and comes from the logits at position t, which predict it. `confidence` is None
    unless the head was asked for it. `aux_loss` is there for TRL, whose scoring pass reads it, and always None.
    """

    # A ModelOutput needs defaults; these three are always given.
    log_probs: Tensor = None  # type: ignore[assignment]
    entropy: Tensor = None  # type: ignore[assignment]
    certainty: Tensor = None  # type: ignore[assignment]
    confidence: Tensor | None = None
    aux_loss: Tensor | None = None


@dataclass
class _Recording:
    tape: list[TokenScores]
    adapters: set[tuple[object, ...]]


def add_certainty_head(
    model: PreTrainedModel,
    temperature: float = 1.0,
    cast_lm_head_to_fp32: bool = False,
    confidence_top_k: int | None = None,
) -> None:
    """Patch the innermost causal language model's forward with the keyword `token_scores`.

    `model(..., labels=labels, token_scores=True)` returns `TokenScores` without gradient: the backbone runs once, and
    only positions whose next label is not -100 meet the head. Logits are divided by `temperature`.
    `cast_lm_head_to_fp32` projects in fp32, as the TRL setting of that name does. `confidence_top_k` = k adds SCOPE's
    confidence, the mean of -log p over the k most likely tokens.

    Raises ValueError when the model has no language-model head, or one whose logits cannot be repeated here.
    """
    head = _plain_head(model)
    if model.base_model is model:
        raise ValueError(f"{type(model).__name__} has no backbone apart from its head (base_model_prefix)")
    transform = read_transform(model.config, temperature)
    probe_head(model, head, transform)
    previous_forward = model.forward
    setattr(model, _RECORDING, None)

    # The signature stays the model's own: `generate` checks its keywords against it.
    @functools.wraps(type(model).forward)
    def forward(self: PreTrainedModel, *args: Any, token_scores: bool = False, **kwargs: Any) -> Any:
        if token_scores:
            return _score(self, transform, cast_lm_head_to_fp32, confidence_top_k, *args, **kwargs)
        recording: _Recording | None = getattr(self, _RECORDING)
        if recording is None or not _is_scoring_pass(kwargs) or _adapters(self) != recording.adapters:
            return previous_forward(*args, **kwargs)
        del kwargs["fused_lm_head"]
        scores = _score(self, transform, cast_lm_head_to_fp32, confidence_top_k, *args, **kwargs)
        recording.tape.append(scores)
        return scores

    model.forward = types.MethodType(forward, model)


@contextlib.contextmanager
def record_certainty(model: PreTrainedModel) -> Iterator[list[TokenScores]]:
    """Answer TRL's scoring passes through `model` and keep what they were answered, in call order.

    `model` is the one given to `add_certainty_head`. Passes with other PEFT adapters than those active at the start
    (the reference policy's: adapters disabled, or switched) are left to TRL and not recorded, and so are passes with
    gradient, router logits or shifted labels. Raises ValueError without a certainty head, or when already recording.
    """
    if not hasattr(model, _RECORDING):
        raise ValueError("record_certainty needs the model that add_certainty_head was given")
    if getattr(model, _RECORDING) is not None:
        raise ValueError("record_certainty is open on this model already")
    recording = _Recording([], _adapters(model))
    setattr(model, _RECORDING, recording)
    try:
        yield recording.tape
    finally:
        setattr(model, _RECORDING, None)


@torch.no_grad()
def _score(
    model: PreTrainedModel,
    transform: LogitTransform,
    cast_lm_head_to_fp32: bool,
    confidence_top_k: int | None,
    *args: Any,
    labels: Tensor | None = None,
    **kwargs: Any,
) -> TokenScores:
    if labels is None:
        raise ValueError("token_scores needs labels: the tokens to score, and -100 where there is none")
    # Looked up on each call: FSDP and PEFT replace modules after the patch.
    head = _plain_head(model)
    hidden = model.base_model(*args, **{**kwargs, "use_cache": False}).last_hidden_state[:, :-1].to(head.weight.device)
    labels = labels[:, 1:].to(hidden.device)
    scored = labels != IGNORED_LABEL
    device = hidden.device.type
    if cast_lm_head_to_fp32:
        dtype = torch.float32
    else:
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with _whole(head) as (weight, bias), torch.autocast(device, enabled=False):
        scores = score_tokens(hidden[scored].to(dtype), weight, bias, labels[scored], transform, confidence_top_k)
    return TokenScores(*(torch.zeros_like(labels, dtype=torch.float32).masked_scatter_(scored, x) for x in scores))


def _plain_head(model: PreTrainedModel) -> nn.Linear:
    """The output embeddings, refused when their weight is not what they multiply by."""
    head: nn.Linear | None = model.get_output_embeddings()
    name = type(model).__name__
    if head is None:
        raise ValueError(f"{name} has no language-model head: certainty needs a causal language model (…ForCausalLM)")
    if hasattr(head, "base_layer"):
        raise ValueError(
            f"{name} has a PEFT adapter on its language-model head, which TRL's log-probabilities and this pass would "
            f"ignore; take the head out of target_modules"
        )
    if not head.weight.is_floating_point():
        raise ValueError(f"{name} has a quantised language-model head ({head.weight.dtype}); leave it unquantised")
    return head


@contextlib.contextmanager
def _whole(head: nn.Linear) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The head's weight and bias, gathered when sharded.

    Once per forward and not per tile: the number of tiles depends on the data, and a rank with fewer would leave the
    others waiting in a collective.
    """
    weight, bias = head.weight, head.bias
    if isinstance(weight, DTensor):
        yield weight.full_tensor(), bias.full_tensor() if isinstance(bias, DTensor) else bias
    elif hasattr(weight, "ds_status"):  # ZeRO-3
        import deepspeed
        from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus

        # A tied weight may be held by the embedding already; gathering it twice breaks DeepSpeed's bookkeeping.
        absent = [p for p in (weight, bias) if p is not None and p.ds_status != ZeroParamStatus.AVAILABLE]
        with deepspeed.zero.GatheredParameters(absent) if absent else contextlib.nullcontext():
            yield weight, bias
    else:
        yield weight, bias


def _is_scoring_pass(kwargs: dict[str, Any]) -> bool:
    return (
        bool(kwargs.get("fused_lm_head"))
        and not torch.is_grad_enabled()
        and not kwargs.get("output_router_logits")
        and kwargs.get("shift_labels") is None
    )


def _adapters(model: nn.Module) -> set[tuple[object, ...]]:
    """Which PEFT adapters act: (disabled, names) of the adapter layers. Prompt-learning adapters do not show here."""
    layers = (m for m in model.modules() if isinstance(getattr(type(m), "active_adapters", None), property))
    return {(layer.disable_adapters, tuple(layer.active_adapters)) for layer in layers}  # type: ignore[arg-type]
