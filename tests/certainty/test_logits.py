from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedModel

from sif_trainer.certainty.logits import LogitTransform, probe_head, read_transform

TinyModel = Callable[..., PreTrainedModel]


@pytest.mark.parametrize(
    ("model_type", "fields", "scale", "softcap"),
    [
        ("qwen2", {}, 1.0, None),
        ("cohere", {"logit_scale": 0.25}, 0.25, None),
        ("granite", {"logits_scaling": 4.0}, 0.25, None),
        ("hyperclovax", {"logits_scaling": 4.0}, 4.0, None),
        ("falcon_h1", {"lm_head_multiplier": 0.5}, 0.5, None),
        ("gemma2", {"final_logit_softcapping": 3.0}, 1.0, 3.0),
        ("gemma2", {"final_logit_softcapping": None}, 1.0, None),
        ("mpt", {"logit_scale": None}, 1.0, None),
        ("mixtral", {"output_router_logits": True}, 1.0, None),
    ],
)
def test_scale_and_softcap_by_model_type(
    model_type: str, fields: dict[str, Any], scale: float, softcap: float | None
) -> None:
    transform = read_transform(CONFIG_MAPPING[model_type](**fields), temperature=0.5)
    assert transform == LogitTransform(scale, softcap, temperature=0.5)


def test_a_language_model_inside_a_composite_configuration_is_found() -> None:
    text = CONFIG_MAPPING["gemma3_text"](final_logit_softcapping=7.0)
    assert read_transform(CONFIG_MAPPING["gemma3"](text_config=text)).softcap == 7.0


@pytest.mark.parametrize("field", ["logits_soft_cap", "output_logit_bias", "logits_mup_width_multiplier"])
def test_an_unknown_transformation_is_refused_by_name(field: str) -> None:
    config = CONFIG_MAPPING["qwen2"](**{field: 30.0})
    with pytest.raises(ValueError, match=rf"qwen2: .*'{field}'=30.0"):
        read_transform(config)
    for neutral in (None, False, 1.0):
        assert read_transform(CONFIG_MAPPING["qwen2"](**{field: neutral})) == LogitTransform()


def test_temperature_must_be_positive() -> None:
    for temperature in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="temperature"):
            read_transform(CONFIG_MAPPING["qwen2"](), temperature)


def test_apply_is_the_models_own_transformation() -> None:
    logits = torch.linspace(-9, 9, 50)
    expected = 3 * torch.tanh(0.5 * logits / 3) / 0.7
    assert torch.allclose(LogitTransform(0.5, 3.0, 0.7).apply_(logits.clone()), expected)


ARCHITECTURES = [
    ("qwen2", {}),
    ("qwen2", {"tie_word_embeddings": True}),
    ("gemma2", {"final_logit_softcapping": 3.0}),
    ("granite", {"logits_scaling": 4.0}),
    ("cohere", {"logit_scale": 0.25}),
    ("phi", {}),  # a head with a bias
    ("opt", {"word_embed_proj_dim": 16, "ffn_dim": 48}),  # its forward goes past its own backbone, to the decoder
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("model_type", "fields"), ARCHITECTURES)
def test_the_probe_agrees_with_real_architectures(
    model_type: str, fields: dict[str, Any], dtype: torch.dtype, tiny_model: TinyModel
) -> None:
    model = tiny_model(model_type, **fields).to(dtype)
    probe_head(model, model.get_output_embeddings(), read_transform(model.config, temperature=0.7))


def change_logits(model: PreTrainedModel, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    own_forward = model.forward
    model.forward = lambda *args, **kwargs: SimpleNamespace(logits=change(own_forward(*args, **kwargs).logits))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: 50 * torch.tanh(x / 50),
        lambda x: x * 1.01,
        lambda x: x + torch.linspace(0, 1, x.size(-1)),
        lambda x: x[..., :-3],
        lambda x: x.roll(1, dims=-1),
    ],
    ids=["softcap", "scale", "offset", "cut", "roll"],
)
def test_the_probe_refuses_what_the_configuration_does_not_say(
    change: Callable[[torch.Tensor], torch.Tensor], tiny_model: TinyModel
) -> None:
    model = tiny_model("qwen2")
    change_logits(model, change)
    with pytest.raises(ValueError, match=r"Qwen2ForCausalLM: .*transformation"):
        probe_head(model, model.get_output_embeddings(), LogitTransform())


def test_the_probe_refuses_a_head_that_is_no_plain_linear_map(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2")

    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    model.lm_head.__class__ = Doubled
    with pytest.raises(ValueError, match="more than the linear map"):
        probe_head(model, model.lm_head, LogitTransform())


def test_the_probe_refuses_a_head_that_reads_something_else(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2")
    model.lm_head.register_forward_pre_hook(lambda module, args: (args[0] / 24,))
    with pytest.raises(ValueError, match="last hidden state"):
        probe_head(model, model.lm_head, LogitTransform())


def test_the_probe_leaves_the_model_and_the_generator_as_they_were(tiny_model: TinyModel) -> None:
    model = tiny_model("gpt2", n_embd=32, n_layer=1, n_head=2).train()  # with dropout
    model.transformer.ln_f.eval()
    modes, state = [m.training for m in model.modules()], torch.get_rng_state()
    probe_head(model, model.get_output_embeddings(), LogitTransform())
    assert [m.training for m in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(m._forward_hooks for m in model.modules())


def test_weights_that_are_not_there_are_not_probed(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2").to("meta")
    probe_head(model, model.get_output_embeddings(), LogitTransform(softcap=1.0))
