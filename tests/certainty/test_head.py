from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from trl.trainer.utils import add_fused_lm_head, use_adapter

from sif_trainer.certainty.formula import entropy, self_certainty, token_log_probs
from sif_trainer.certainty.head import TokenScores, add_certainty_head, record_certainty

TinyModel = Callable[..., PreTrainedModel]


@dataclass
class Batch:
    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    def kwargs(self) -> dict[str, Tensor]:
        return vars(self)


@pytest.fixture
def batch() -> Batch:
    """Prompts padded on the left, completions on the right, as a trainer lays them out; one row has no completion."""
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(3, 131, (4, 12), generator=generator)
    prompt, completion = [2, 5, 4, 3], [7, 4, 1, 0]
    attention_mask = torch.tensor(
        [[5 - p <= t < 5 + c for t in range(12)] for p, c in zip(prompt, completion, strict=True)]
    ).long()
    labels = input_ids.masked_fill(attention_mask == 0, -100)
    labels[:, :5] = -100
    return Batch(input_ids.masked_fill(attention_mask == 0, 0), attention_mask, labels)


def full_logits_scores(model: nn.Module, batch: Batch, temperature: float) -> list[Tensor]:
    """The definition: the model's own logits at position t score token t + 1."""
    with torch.no_grad():
        logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits[:, :-1].float()
    logits = logits / temperature
    scored = batch.labels[:, 1:] != -100
    scores = token_log_probs(logits, batch.input_ids[:, 1:]), entropy(logits), self_certainty(logits)
    return [x.masked_fill(~scored, 0) for x in scores]


def assert_scores_equal(scores: TokenScores, expected: list[Tensor], atol: float = 1e-5) -> None:
    assert expected[2].count_nonzero() > 0
    for actual, wanted in zip((scores.log_probs, scores.entropy, scores.certainty), expected, strict=True):
        assert actual.dtype == torch.float32
        assert not actual.requires_grad
        assert torch.allclose(actual, wanted, rtol=0, atol=atol)


ARCHITECTURES = [
    ("qwen2", {}),
    ("llama", {"tie_word_embeddings": True}),
    ("phi", {}),  # a head with a bias
    ("gemma2", {"final_logit_softcapping": 3.0}),
    ("granite", {"logits_scaling": 4.0}),
    ("cohere", {"logit_scale": 0.25}),
    ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}),  # absolute positions
    ("opt", {"word_embed_proj_dim": 16, "ffn_dim": 48}),
]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize(("model_type", "fields"), ARCHITECTURES)
def test_every_position_equals_the_full_logits_definition(
    model_type: str, fields: dict[str, Any], temperature: float, batch: Batch, tiny_model: TinyModel
) -> None:
    model = tiny_model(model_type, **fields)
    expected = full_logits_scores(model, batch, temperature)
    add_certainty_head(model, temperature)
    assert_scores_equal(model(**batch.kwargs(), token_scores=True), expected)


def test_lora_on_the_backbone(batch: Batch, tiny_model: TinyModel) -> None:
    inner = tiny_model("qwen2")
    model = get_peft_model(inner, LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)).eval()
    expected = full_logits_scores(model, batch, 0.7)
    with model.disable_adapter():
        assert not torch.allclose(full_logits_scores(model, batch, 0.7)[2], expected[2], atol=1e-3)
    add_certainty_head(model.get_base_model(), 0.7)
    assert_scores_equal(model(**batch.kwargs(), token_scores=True), expected)


def test_a_head_trained_whole_by_peft(batch: Batch, tiny_model: TinyModel) -> None:
    model = get_peft_model(
        tiny_model("qwen2"),
        LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"], init_lora_weights=False),
    ).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.add_(0.5 * torch.randn(131, 32))
    expected = full_logits_scores(model, batch, 1.0)
    add_certainty_head(model.get_base_model())
    assert_scores_equal(model(**batch.kwargs(), token_scores=True), expected)


def test_an_adapter_on_the_head_is_refused_early_or_late(batch: Batch, tiny_model: TinyModel) -> None:
    config = LoraConfig(target_modules=["q_proj", "lm_head"])
    model = get_peft_model(tiny_model("qwen2"), config)
    with pytest.raises(ValueError, match=r"adapter on its language-model head.*target_modules"):
        add_certainty_head(model.get_base_model())

    inner = tiny_model("qwen2")
    add_certainty_head(inner)
    model = get_peft_model(inner, config)
    with pytest.raises(ValueError, match="adapter on its language-model head"):
        model(**batch.kwargs(), token_scores=True)


class TableConfig(PretrainedConfig):
    model_type = "table"


class TableBackbone(nn.Module):
    """Position t has the hidden state, and so the logits, `table[t]`."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, use_cache: bool = False) -> Any:
        return BaseModelOutput(self.table[: input_ids.size(1)].expand(len(input_ids), -1, -1))


class TableModel(PreTrainedModel):
    config_class = TableConfig
    base_model_prefix = "backbone"

    def __init__(self, table: Tensor) -> None:
        super().__init__(TableConfig())
        self.backbone = TableBackbone(table)
        self.lm_head = nn.Linear(table.size(1), table.size(1), bias=False)
        self.lm_head.weight = nn.Parameter(torch.eye(table.size(1)))

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, **kwargs: Any) -> CausalLMOutput:
        return CausalLMOutput(logits=self.lm_head(self.backbone(input_ids).last_hidden_state))


@pytest.mark.parametrize("autocast", [False, True])
def test_a_token_is_scored_by_the_logits_that_predict_it(autocast: bool) -> None:
    """Position t holds one spike of height 10 (t + 1), on token t + 1, so its scores say which position was read.

    With the head in fp32, autocast must round nothing: not the logits, and not what is summed up from them.
    """
    length, vocab_size = 8, 9
    heights = 10.0 * torch.arange(1, length + 1)
    table = torch.zeros(length, vocab_size)
    table[range(length), range(1, length + 1)] = heights
    model = TableModel(table)
    add_certainty_head(model, cast_lm_head_to_fp32=True)
    input_ids = torch.arange(length).unsqueeze(0)  # token t + 1 follows position t
    labels = input_ids.clone()
    labels[:, :3] = -100

    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        scores = model(input_ids=input_ids, labels=labels, token_scores=True)
    certainty = self_certainty(table)[:-1].unsqueeze(0)
    assert scores.certainty.shape == (1, length - 1)
    assert torch.allclose(scores.certainty[:, 2:], certainty[:, 2:], atol=1e-5)
    assert (certainty.diff() > 5).all()  # one position early or late is far outside the tolerance
    assert (scores.log_probs[:, 2:] > -1e-3).all()  # each token is what its predecessor's logits point at
    assert not scores.certainty[:, :2].any()
    assert not scores.log_probs[:, :2].any()


def test_other_calls_are_the_models_own(batch: Batch, tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2")
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    own = model(**batch.kwargs()), model.generate(**inputs, max_new_tokens=4, do_sample=False)
    add_certainty_head(model)
    patched = model(**batch.kwargs()), model.generate(**inputs, max_new_tokens=4, do_sample=False)
    assert torch.equal(own[0].logits, patched[0].logits)
    assert torch.equal(own[0].loss, patched[0].loss)
    assert patched[0].loss.requires_grad
    assert torch.equal(own[1], patched[1])


def test_a_batch_without_a_scored_token(batch: Batch, tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2")
    add_certainty_head(model)
    batch.labels.fill_(-100)
    scores = model(**batch.kwargs(), token_scores=True)
    assert scores.certainty.shape == (4, 11)
    assert not scores.certainty.any()


def test_bad_models_and_calls_are_refused(batch: Batch, tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2")
    for headless in (AutoModel, AutoModelForSequenceClassification):
        with pytest.raises(ValueError, match="no language-model head"):
            add_certainty_head(headless.from_config(model.config))
    with pytest.raises(ValueError, match="add_certainty_head"), record_certainty(model):
        pass
    with pytest.raises(ValueError, match="logits_soft_cap"):
        add_certainty_head(tiny_model("qwen2", logits_soft_cap=30.0))
    table = TableModel(torch.eye(3))
    table.base_model_prefix = ""
    with pytest.raises(ValueError, match="no backbone"):
        add_certainty_head(table)
    quantised = TableModel(torch.eye(3))
    quantised.lm_head.weight = nn.Parameter(torch.eye(3).to(torch.int8), requires_grad=False)
    with pytest.raises(ValueError, match=r"quantised language-model head \(torch.int8\)"):
        add_certainty_head(quantised)
    add_certainty_head(model)
    with pytest.raises(ValueError, match="labels"):
        model(input_ids=batch.input_ids, token_scores=True)
    with record_certainty(model), pytest.raises(ValueError, match="already"), record_certainty(model):
        pass


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("cast_lm_head_to_fp32", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_projection_is_as_precise_as_trls_own(
    dtype: torch.dtype, cast_lm_head_to_fp32: bool, autocast: bool, batch: Batch, tiny_model: TinyModel
) -> None:
    model = tiny_model("qwen2").to(dtype)
    add_fused_lm_head(model, 0.7, cast_lm_head_to_fp32, outputs=("log_probs", "entropy"))
    add_certainty_head(model, 0.7, cast_lm_head_to_fp32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        theirs = model(**batch.kwargs(), fused_lm_head=True)
        ours = model(**batch.kwargs(), token_scores=True)
    assert torch.allclose(ours.log_probs, theirs.log_probs, rtol=0, atol=1e-5)
    assert torch.allclose(ours.entropy, theirs.entropy, rtol=0, atol=1e-5)


def test_bf16_stays_close_to_fp32(batch: Batch, tiny_model: TinyModel) -> None:
    model = tiny_model("qwen2").bfloat16()
    expected = full_logits_scores(model, batch, 1.0)
    add_certainty_head(model)
    assert_scores_equal(model(**batch.kwargs(), token_scores=True), expected, atol=2e-2)


@pytest.fixture
def policy(tiny_model: TinyModel) -> PreTrainedModel:
    model = tiny_model("qwen2")
    add_fused_lm_head(model, 0.7, outputs=("log_probs", "entropy"))
    add_certainty_head(model, 0.7)
    return model


def test_recording_answers_trls_scoring_pass(batch: Batch, policy: PreTrainedModel) -> None:
    with torch.no_grad():
        theirs = policy(**batch.kwargs(), fused_lm_head=True)
        with record_certainty(policy) as tape:
            assert tape == []
            first = policy(**batch.kwargs(), fused_lm_head=True)
            second = policy(**batch.kwargs(), fused_lm_head=True)
        afterwards = policy(**batch.kwargs(), fused_lm_head=True)
    assert torch.allclose(first.log_probs, theirs.log_probs, rtol=0, atol=1e-5)
    assert torch.allclose(first.entropy, theirs.entropy, rtol=0, atol=1e-5)
    assert first.aux_loss is None
    assert len(tape) == 2
    assert torch.equal(tape[0].certainty, first.certainty)
    assert torch.equal(tape[1].log_probs, second.log_probs)
    assert_scores_equal(tape[0], full_logits_scores(policy, batch, 0.7))
    assert type(afterwards) is type(theirs)


def test_the_recording_takes_nothing_but_scoring_passes(batch: Batch, policy: PreTrainedModel) -> None:
    with record_certainty(policy) as tape:
        loss_pass = policy(**batch.kwargs(), fused_lm_head=True)
        assert loss_pass.log_probs.requires_grad
        with torch.no_grad():
            policy(**batch.kwargs())
            scores = policy(**batch.kwargs(), token_scores=True)
            shifted = {"input_ids": batch.input_ids, "shift_labels": batch.labels}
            assert policy(**shifted, fused_lm_head=True).log_probs.shape == (4, 12)
    assert tape == []
    assert isinstance(scores, TokenScores)


def test_a_pass_that_wants_router_logits_is_left_to_trl(batch: Batch, tiny_model: TinyModel) -> None:
    model = tiny_model("mixtral", num_local_experts=2)
    add_fused_lm_head(model)
    add_certainty_head(model)
    with record_certainty(model) as tape, torch.no_grad():
        output = model(**batch.kwargs(), fused_lm_head=True, output_router_logits=True)
        assert tape == []
        assert output.aux_loss > 0
        model(**batch.kwargs(), fused_lm_head=True)
        assert len(tape) == 1


def test_an_error_closes_the_recording(batch: Batch, policy: PreTrainedModel) -> None:
    with pytest.raises(RuntimeError, match="stop"), record_certainty(policy):
        raise RuntimeError("stop")
    with record_certainty(policy) as tape, torch.no_grad():
        policy(**batch.kwargs(), fused_lm_head=True)
    assert len(tape) == 1


@pytest.mark.parametrize("reference_adapter", [None, "ref"])
def test_the_reference_pass_of_a_peft_model_is_not_recorded(
    reference_adapter: str | None, batch: Batch, policy: PreTrainedModel
) -> None:
    """The reference runs through the same module, with the adapters disabled or another one active."""
    config = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = get_peft_model(policy, config)
    if reference_adapter:
        model.add_adapter(reference_adapter, config)
    with torch.no_grad():
        with use_adapter(model, reference_adapter):
            reference = model(**batch.kwargs(), fused_lm_head=True)
        with record_certainty(policy) as tape:
            old = model(**batch.kwargs(), fused_lm_head=True)
            with use_adapter(model, reference_adapter):
                recorded_reference = model(**batch.kwargs(), fused_lm_head=True)
            model(**batch.kwargs(), fused_lm_head=True)
    assert torch.equal(recorded_reference.log_probs, reference.log_probs)
    assert not torch.allclose(old.log_probs, reference.log_probs, atol=1e-3)
    assert len(tape) == 2
    for scores in tape:
        assert torch.equal(scores.certainty, old.certainty)


@pytest.fixture
def one_process_group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_process_group")
def test_through_distributed_data_parallel(batch: Batch, policy: PreTrainedModel) -> None:
    expected = full_logits_scores(policy, batch, 0.7)
    wrapped = nn.parallel.DistributedDataParallel(policy)
    with torch.no_grad():
        assert_scores_equal(wrapped(**batch.kwargs(), token_scores=True), expected)
        with record_certainty(policy) as tape:
            wrapped(**batch.kwargs(), fused_lm_head=True)
    assert_scores_equal(tape[0], expected)
    wrapped(**batch.kwargs(), fused_lm_head=True).loss.backward()  # scoring left the wrapper fit for training


@pytest.mark.usefixtures("one_process_group")
@pytest.mark.parametrize("model_type", ["qwen2", "phi"])  # phi: a head with a bias
def test_a_sharded_head_is_gathered(model_type: str, batch: Batch, tiny_model: TinyModel) -> None:
    model = tiny_model(model_type)
    expected = full_logits_scores(model, batch, 0.7)
    mesh = dist.init_device_mesh("cpu", (1,))
    fully_shard(model.lm_head, mesh=mesh)  # on its own, so that the model's forward does not gather it
    fully_shard(model, mesh=mesh)
    add_certainty_head(model, 0.7)
    with torch.no_grad():
        assert_scores_equal(model(**batch.kwargs(), token_scores=True), expected)
    assert isinstance(model.lm_head.weight, DTensor)
