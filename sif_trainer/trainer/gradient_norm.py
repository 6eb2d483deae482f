"""The gradient norm of each response, for VIGOR: one forward and one backward pass per response."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sif_trainer.trainer.scoring import Rollout


def gradient_norms(model: Any, rollout: Rollout, temperature: float, device: torch.device) -> Tensor:
    """(B,) float64: L2 norm of the gradient of each response's mean negative log-likelihood (spec 4.3).

    `model` is the unwrapped policy, so that no process waits for another; its trainable parameters count (LoRA's
    alone, if there are any). Their `.grad` is left as it was. Prompt and tool tokens are read but not scored. Dropout
    is off, and with it gradient checkpointing: the activations of one response are held at a time.
    """
    weights = [p for p in model.parameters() if p.requires_grad]
    mask = rollout.valid_mask(device)
    norms = []
    for row, (prompt, completion) in enumerate(zip(rollout.prompt_ids, rollout.completion_ids, strict=True)):
        ids = torch.tensor([[*prompt, *completion]], device=device)
        with _evaluating(model), torch.enable_grad():
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=len(completion) + 1).logits[0, :-1]
            log_probs = (logits.float() / temperature).log_softmax(-1)
            chosen = log_probs.gather(-1, ids[0, len(prompt) :, None]).squeeze(-1)
            valid = mask[row, : len(completion)]
            loss = -(chosen * valid).sum() / valid.sum().clamp(min=1)
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        squares = [g.double().square().sum() for g in gradients if g is not None]
        norms.append(torch.stack(squares).sum().sqrt())
    return torch.stack(norms)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Within the block every module is in evaluation mode, behind it each is as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
