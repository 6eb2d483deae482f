"""What a model does to its logits between the head's projection and the distribution.

The head computes logits without the model's own forward, so it must repeat what that forward does to them. Scales and
the final soft-cap are read from the configuration. Anything else is refused: by the name of a suspicious configuration
field, and by a probe that watches the model's own forward.

    pytest tests/certainty/test_logits.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import PretrainedConfig, PreTrainedModel

# Factors on the logits by their configuration names. `logits_scaling` divides, except in HyperCLOVA X.
_FACTORS = ("logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")
_SUSPICIOUS = re.compile(r"logit|soft_?cap|lm_head_mult|output_mult")
# Names that match but act elsewhere: attention, routers, gates, initial values, how many logits to return.
_ELSEWHERE = re.compile(r"attn|attention|router|mlp|gate|init|keep|contrastive")


@dataclass(frozen=True)
class LogitTransform:
    """softcap(scale x) / temperature, where softcap(x) = cap tanh(x / cap), or x without a cap."""

    scale: float = 1.0
    softcap: float | None = None
    temperature: float = 1.0

    def apply_(self, logits: Tensor) -> Tensor:
        """Transform fp32 logits of any shape in place."""
        if self.scale != 1.0:
            logits.mul_(self.scale)
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        if self.temperature != 1.0:
            logits.div_(self.temperature)
        return logits


def read_transform(config: PretrainedConfig, temperature: float = 1.0) -> LogitTransform:
    """Read the logit scale and the final soft-cap from a model's configuration.

    Raises ValueError that names the field when the configuration holds another one that looks like a transformation of
    the logits and is not neutral, or when the temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be positive: logits are divided by it")
    text_config = config.get_text_config()
    fields: dict[str, Any] = text_config.to_dict()
    for name, value in fields.items():
        known = name in _FACTORS or name == "final_logit_softcapping"
        neutral = value in (None, False, 0) or (value == 1 and value is not True) or isinstance(value, (dict, list))
        if _SUSPICIOUS.search(name) and not known and not _ELSEWHERE.search(name) and not neutral:
            raise ValueError(
                f"{text_config.model_type}: the configuration field '{name}'={value!r} looks like a transformation of "
                f"the logits that is not known here, so self-certainty would be wrong; known are "
                f"{', '.join(_FACTORS)} and final_logit_softcapping"
            )
    scale = 1.0
    for name in _FACTORS:
        if (value := fields.get(name)) is not None:
            divides = name == "logits_scaling" and text_config.model_type != "hyperclovax"
            scale *= 1 / float(value) if divides else float(value)
    return LogitTransform(scale, fields.get("final_logit_softcapping"), temperature)


@torch.no_grad()
def probe_head(model: PreTrainedModel, head: nn.Linear, transform: LogitTransform) -> None:
    """Run the model's own forward on a few tokens and check that its logits are `transform(head(backbone))`.

    The head's output is replaced by a wide ramp on the way, so that a soft-cap or an offset shows however small the
    model's own logits are. Raises ValueError that says which part differs. Parameters that are sharded or not
    materialised are not probed.
    """
    if any(_is_absent(p) for p in model.parameters()):
        return
    seen: dict[str, Tensor] = {}

    def watch(module: nn.Module, args: tuple[Any, ...], projected: Tensor) -> Tensor:
        ramp = torch.linspace(-60, 60, projected.size(-1), device=projected.device).to(projected.dtype)
        seen.update(hidden=args[0], projected=projected, ramp=ramp.expand_as(projected).clone())
        return seen["ramp"].clone()

    tokens = torch.arange(1, 9, device=model.device).unsqueeze(0) % head.weight.size(0)
    in_training = [module for module in model.modules() if module.training]
    hook = head.register_forward_hook(watch)
    try:
        model.eval()
        hidden = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        logits = model(input_ids=tokens, use_cache=False).logits
    finally:
        hook.remove()
        for module in in_training:
            module.training = True

    name = type(model).__name__
    if not seen or not _close(seen["hidden"], hidden):
        raise ValueError(f"{name}: its head does not read the backbone's last hidden state, so it cannot be scored")
    if not _close(seen["projected"], F.linear(hidden.to(head.weight.dtype), head.weight, head.bias)):
        raise ValueError(
            f"{name}: its head is more than the linear map of its weight and bias, so it cannot be scored"
        )
    own = LogitTransform(transform.scale, transform.softcap).apply_(seen["ramp"].float())
    if not _close(logits, own):
        raise ValueError(
            f"{name}: between the head and the logits there is a transformation that its configuration does not name "
            f"(read were scale={transform.scale} and softcap={transform.softcap}), so self-certainty would be wrong"
        )


def _is_absent(parameter: nn.Parameter) -> bool:
    return isinstance(parameter, DTensor) or hasattr(parameter, "ds_status") or parameter.is_meta


def _close(actual: Tensor, expected: Tensor) -> bool:
    """Equal up to four roundings, at the coarser of the two precisions, of the largest finite value."""
    if actual.shape != expected.shape:
        return False
    largest = expected.float().abs().nan_to_num(0, 0).max().item()
    tolerance = 4 * max(torch.finfo(actual.dtype).eps, torch.finfo(expected.dtype).eps) * max(largest, 1.0)
    return torch.allclose(actual.float(), expected.float(), rtol=0, atol=tolerance, equal_nan=True)
