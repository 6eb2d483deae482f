"""How much memory do a forward and a backward hold at most? Run on tensors without data, with every storage counted.

    with LiveBytes(model) as live:
        backbone(model, rows=8, length=3584)
    live.peak

The model lies on torch's meta device: shapes and lifetimes are real, numbers are not, so that it takes seconds and no
memory, whatever the size. Attention is counted as a fused kernel that keeps query, key, value, output and mask, and
the head as TRL's, which holds a tile of logits at a time.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.masking_utils import AttentionMaskInterface

ATTENTION = "forecast"
TILE_TOKENS, TILE_VOCABULARY = 4096, 32768  # of TRL's fused head
PAGE = 4096
COPIES_ON_CPU = 7.25  # of a tile, in fp32, that its gradient in plain torch holds beside it; a GPU's kernel holds none


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages made while it is open, `now` and at their `peak`; a model's weights are not."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen = {tensor.untyped_storage()._cdata for tensor in [*model.parameters(), *model.buffers()]}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._seen:
            self._seen.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size


def model_without_data(model_config: Any, dtype: torch.dtype) -> Any:
    """Return the model on the meta device."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(model_config, dtype=dtype, attn_implementation=ATTENTION)
    return model.train()


def peak_of_update(model: Any, rows: int, length: int, scored: int, on_cpu: bool, accumulates: bool) -> int:
    """Most bytes that forward and backward of a micro-batch hold, gradients included, weights not.

    Args:
        model: of `model_without_data`.
        rows: completions of the micro-batch.
        length: tokens of each, prompt included.
        scored: positions of all rows that meet the head.
        on_cpu: whether the head runs without a kernel.
        accumulates: whether gradients of an earlier micro-batch are there already.
    """
    model.zero_grad(set_to_none=True)
    if accumulates:
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.empty_like(parameter)
    with LiveBytes(model) as live:
        live.now = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        hidden = _hidden(model, rows, length)
        head = model.get_output_embeddings()
        tile = head_tile(scored, head.weight, on_cpu)
        loss = _Head.apply(hidden.flatten(0, 1)[:scored], head.weight, tile)
        loss.backward(torch.empty_like(loss))
    model.zero_grad(set_to_none=True)
    return live.peak


def peak_of_forward(model: Any, rows: int, length: int) -> int:
    """Most bytes that a forward without gradient holds, weights not included."""
    with torch.no_grad(), LiveBytes(model) as live:
        _hidden(model, rows, length)
    return live.peak


def _hidden(model: Any, rows: int, length: int) -> Tensor:
    ids = torch.zeros((rows, length), dtype=torch.long, device="meta")
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    hidden: Tensor = inner.base_model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)[0]
    return hidden


def head_tile(tokens: int, weight: Tensor, on_cpu: bool) -> int:
    """Bytes of the tile that TRL's fused head works in, with what its gradient makes of it on a CPU."""
    tokens, width = min(tokens, TILE_TOKENS), min(len(weight), TILE_VOCABULARY)
    if not on_cpu:
        return tokens * TILE_VOCABULARY * weight.element_size()
    touched = min(max(4 * width, PAGE), 4 * TILE_VOCABULARY)  # of a row of the tile, which is made for the widest
    return round(tokens * (touched + COPIES_ON_CPU * 4 * width))


class _Attention(torch.autograd.Function):
    """Keeps for the backward what a fused attention kernel keeps."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out = torch.empty_like(query)
        mask = query.new_empty((query.size(0), 1, query.size(2), key.size(2)))  # made of the padding in every layer
        ctx.save_for_backward(query, key, value, out, mask)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        query, key, value, _, _ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


class _Head(torch.autograd.Function):
    """Holds what TRL's fused head holds: tiles in both directions, and gradients that are summed in fp32."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, tile_bytes: int) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        ctx.tile_bytes = tile_bytes
        torch.empty(tile_bytes, dtype=torch.uint8, device="meta")
        return hidden.new_empty(len(hidden), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        parts = [
            torch.empty_like(tensor, dtype=torch.float32) if needed else None
            for tensor, needed in zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        ]
        torch.empty(ctx.tile_bytes, dtype=torch.uint8, device="meta")
        hidden, weight = (
            None if part is None else part.to(tensor.dtype)
            for part, tensor in zip(parts, ctx.saved_tensors, strict=True)
        )
        return hidden, weight, None


def _attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> tuple[Tensor, None]:
    repeats = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(repeats, 1) if repeats > 1 else x for x in (key, value))
    return _Attention.apply(query, key, value).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, _attend)
AttentionMaskInterface.register(ATTENTION, lambda *args, **kwargs: None)
