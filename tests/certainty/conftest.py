"""Small models of real architectures, with weights large enough for soft-caps and scales to matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

TinyModel = Callable[..., PreTrainedModel]


@pytest.fixture
def tiny_model() -> TinyModel:
    def build(model_type: str, **fields: Any) -> PreTrainedModel:
        torch.manual_seed(0)
        shape: dict[str, Any] = {"vocab_size": 131, "hidden_size": 32, "num_hidden_layers": 2}
        shape |= {"intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
        shape |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        if model_type == "gemma2":
            shape["head_dim"] = 8
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**shape | fields))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
        return model.eval()

    return build
