"""What SIFTrainer relies on of TRL, on the stock trainer: names and signatures first, then how they behave."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
import trl
from packaging.requirements import Requirement
from packaging.version import Version
from torch import Tensor
from transformers import Trainer
from trl import GRPOConfig, GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer import grpo_trainer
from trl.trainer.utils import RepeatSampler, shuffle_sequence_dict, split_tensor_dict

from sif_trainer.certainty.head import add_certainty_head, record_certainty
from sif_trainer.trainer import contract
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.contract import ATTRIBUTES, METHODS, SETTINGS, SUPPORTED, check_contract
from sif_trainer.trainer.reference import loadable_reference
from sif_trainer.trainer.sampler import EpochSeededSampler
from sif_trainer.trainer.trainer import SIFTrainer

ROOT = Path(__file__).parents[2]


def test_the_installed_trl_is_as_relied_on() -> None:
    assert check_contract() == []


def test_the_tested_range_is_the_declared_one() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (requirement,) = (Requirement(line) for line in declared if line.startswith("trl"))
    assert requirement.specifier == Requirement(SUPPORTED).specifier


@pytest.mark.parametrize(
    ("cls", "attribute", "value", "message"),
    [
        (GRPOTrainer, "_generate", lambda self, prompts, images: None, "_generate takes .*remembered for scoring"),
        (GRPOTrainer, "_log_metric", None, "_log_metric takes None.*collects a metric"),
        (
            GRPOTrainer,
            "_compute_loss",
            lambda self, model, inputs: None,
            "_compute_loss no longer knows .*'tool_mask'",
        ),
        (RepeatSampler, "__init__", lambda self: None, "RepeatSampler no longer has 'generator'"),
        (VLLMGeneration, "_init_vllm", lambda self: None, "_init_vllm no longer uses 'LLM'.*an argument more"),
        (VLLMGeneration, "sync_weights", None, "sync_weights no longer uses 'load_weights'.*compared on both sides"),
        (grpo_trainer, "create_model_from_path", None, "create_model_from_path no longer makes the reference"),
        (
            contract,
            "ATTRIBUTES",
            {"tokens": "counts"},
            "no longer sets 'tokens'; SIFTrainer relies on it because it counts",
        ),
        (contract, "SETTINGS", {"gamma": "weighs"}, "GRPOConfig no longer has 'gamma'"),
    ],
)
def test_a_breach_is_named_with_its_reason_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, cls: Any, attribute: str, value: Any, message: str
) -> None:
    if value is None:
        monkeypatch.delattr(cls, attribute)
    else:
        monkeypatch.setattr(cls, attribute, value)
    breaches = "\n".join(check_contract())
    assert re.search(message, breaches), breaches
    assert f"Install {SUPPORTED}" in breaches


def test_the_contract_names_all_that_the_trainer_uses() -> None:
    tree = ast.parse(inspect.getsource(SIFTrainer))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    ours = set(vars(SIFTrainer)) | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    assert used - ours - set(ATTRIBUTES) - set(METHODS) - set(vars(Trainer)) == set()
    overridden = set(vars(SIFTrainer)) & set(vars(GRPOTrainer)) - {"__init__", "__doc__", "__module__"}
    assert overridden <= set(METHODS)


def test_the_contract_names_all_settings_of_trl_that_are_declared_anew() -> None:
    assert set(SIFConfig.__annotations__) & set(GRPOConfig.__annotations__) <= set(SETTINGS)


# --- behaviour, on the stock trainer ---


def rewards(completions: list[str], **kwargs: Any) -> list[float | None]:
    """In each group of four: one, none, three, and no reward at all for the last."""
    return [[1.0, 0.0, 3.0, None][i % 4] for i in range(len(completions))]


class Recorded(GRPOTrainer):
    """The stock trainer, with what passes through the hooks."""

    def _generate(self, prompts: list[Any]) -> Any:
        self.calls = ["generate"]
        self.generated = super()._generate(prompts)
        return self.generated

    def _calculate_rewards(self, *args: Any) -> Tensor:
        self.calls.append("rewards")
        self.table = super()._calculate_rewards(*args)
        return self.table

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.batch = super()._generate_and_score_completions(inputs)
        self.calls.append("done")
        return dict(self.batch)


def stock(folder: Path, **settings: Any) -> Recorded:
    model = tiny.model()
    with loadable_reference(model):
        return Recorded(
            model,
            reward_funcs=[rewards],
            args=tiny.config(folder, max_steps=1, **settings),
            train_dataset=tiny.prompts().remove_columns("answer"),
            processing_class=tiny.tokenizer(),
            rollout_func=tiny.fixed_rollouts,
        )


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    trained = stock(tmp_path_factory.mktemp("stock"), per_device_train_batch_size=16)
    trained.train()
    return trained


def test_generation_gives_token_ids_without_padding_and_comes_before_the_rewards(stepped: Recorded) -> None:
    prompt_ids, completion_ids, tool_mask, *_ = stepped.generated
    assert len(prompt_ids) == len(completion_ids) == 16
    assert all(isinstance(token, int) for ids in [*prompt_ids, *completion_ids] for token in ids)
    assert len({len(ids) for ids in completion_ids}) > 1
    assert tool_mask is None
    assert stepped.calls == ["generate", "rewards", "done"]


def test_groups_are_contiguous(stepped: Recorded) -> None:
    prompt_ids = stepped.generated[0]
    assert all(prompt_ids[i] == prompt_ids[i // 4 * 4] for i in range(16))
    assert len({tuple(ids) for ids in prompt_ids}) == 4


def test_the_table_of_rewards_is_writable_and_has_nan_for_no_reward(stepped: Recorded) -> None:
    assert stepped.table.shape == (16, 1)
    assert stepped.table[:, 0].isnan().tolist() == [False, False, False, True] * 4
    stepped.table[:, 0] = stepped.table[:, 0].clone()


def test_a_reward_of_nan_has_advantage_zero_and_is_left_out_of_its_groups_statistics(stepped: Recorded) -> None:
    advantages = stepped.batch["advantages"].view(4, 4)
    assert (advantages[:, 3] == 0).all()
    scored = torch.tensor([1.0, 0.0, 3.0])
    expected = (scored - scored.mean()) / (scored.std() + 1e-4)
    torch.testing.assert_close(advantages[:, :3], expected.expand(4, 3))


def test_the_batch_has_the_keys_and_shapes_that_are_written_to(stepped: Recorded) -> None:
    mask, advantages = stepped.batch["completion_mask"], stepped.batch["advantages"]
    lengths = [len(ids) for ids in stepped.generated[1]]
    assert mask.sum(1).tolist() == lengths and mask.shape == (16, max(lengths))
    assert advantages.shape == (16,)
    assert stepped.batch["num_items_in_batch"].dim() == 0 and stepped.batch["num_items_in_batch"] == sum(lengths)
    assert "tool_mask" not in stepped.batch
    rows = {name for name, value in stepped.batch.items() if torch.is_tensor(value) and value.dim()}
    assert all(len(stepped.batch[name]) == 16 for name in rows)


def test_a_zero_dimensional_tensor_survives_shuffling_and_splitting() -> None:
    batch = {"rows": torch.arange(8), "loss_scale": torch.tensor(2.5)}
    parts = split_tensor_dict(shuffle_sequence_dict(batch), 4)
    assert [part["loss_scale"].item() for part in parts] == [2.5] * 4
    assert sorted(torch.cat([part["rows"] for part in parts]).tolist()) == list(range(8))


def two_rows() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "prompt_ids": torch.randint(3, 40, (2, 4), generator=generator),
        "prompt_mask": torch.ones(2, 4, dtype=torch.long),
        "completion_ids": torch.randint(3, 40, (2, 5), generator=generator),
        "completion_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]),
        "tool_mask": torch.tensor([[1, 0, 1, 1, 1], [0, 0, 0, 0, 0]]),
        "advantages": torch.tensor([0.0, 0.0]),
        "ref_per_token_logps": -3 * torch.rand(2, 5, generator=generator),
        "num_items_in_batch": torch.tensor(9),
    }


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo"])
def test_the_tool_mask_masks_the_kl_term_and_leaves_attention_alone(tmp_path: Path, loss_type: str) -> None:
    trained = stock(tmp_path, loss_type=loss_type)
    trained.model.train()
    trained.current_gradient_accumulation_steps = 1
    inputs, seen = two_rows(), {}

    def remember(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen["attention"] = kwargs["attention_mask"]

    def keep_gradient(module: torch.nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
        seen["embedded"] = out
        out.retain_grad()

    trained.model.register_forward_pre_hook(remember, with_kwargs=True)
    trained.model.get_input_embeddings().register_forward_hook(keep_gradient)
    trained._compute_loss(trained.model, inputs).backward()
    assert torch.equal(seen["attention"], torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1))
    per_row = seen["embedded"].grad.abs().amax((1, 2))
    assert per_row[0] > 0 and per_row[1] == 0
    # With advantages of zero the only term is the KL, and its masked token cannot be felt behind it.
    changed = inputs | {"ref_per_token_logps": inputs["ref_per_token_logps"].clone()}
    changed["ref_per_token_logps"][0, 1] -= 5
    changed["ref_per_token_logps"][1] -= 5
    assert trained._compute_loss(trained.model, changed) == trained._compute_loss(trained.model, inputs)


def test_a_metric_that_is_logged_by_hand_is_averaged_and_reported(tmp_path: Path) -> None:
    trained = tiny.trainer(tmp_path, max_steps=1)
    trained.train()
    (record,) = [line for line in trained.state.log_history if "sif/keep_rate" in line]
    assert {"sif/eligible_rate", "time/generate", "time/score", "step_time"} <= set(record)
    assert record["rewards/sif/mean"] == pytest.approx(
        record["sif/winners_per_group"] / (tiny.config(tmp_path).num_generations * record["sif/eligible_rate"])
    )


def test_an_epoch_begins_by_seeding_the_sampler(tmp_path: Path) -> None:
    trained = tiny.trainer(tmp_path, per_device_train_batch_size=16)
    loader = trained.get_train_dataloader()

    def order(epoch: int) -> list[str]:
        loader.set_epoch(epoch)
        return [row["id"] for batch in loader for row in batch]

    first, second = order(0), order(1)
    assert first != second and order(0) == first and order(1) == second
    assert first == [name for name in first[::4] for _ in range(4)] and len(set(first)) == 12
    assert isinstance(trained._get_train_sampler(), EpochSeededSampler)
    assert isinstance(trained._get_train_sampler().sampler, RepeatSampler)


def test_the_reference_of_a_model_made_in_memory_is_a_copy_of_it(tmp_path: Path) -> None:
    trained = tiny.trainer(tmp_path, beta=0.1)
    assert trained.ref_model is not trained.model
    for (name, own), reference in zip(trained.model.named_parameters(), trained.ref_model.parameters(), strict=True):
        assert own.data_ptr() != reference.data_ptr() and torch.equal(own, reference), name


@pytest.mark.skipif(
    Version(trl.__version__) < Version("1.16"), reason="scores from logits, so certainty takes a pass of its own"
)
def test_the_pass_that_scores_old_log_probabilities_can_be_recorded(tmp_path: Path) -> None:
    trained = stock(tmp_path, num_iterations=2, per_device_train_batch_size=8)
    add_certainty_head(trained.model)
    with record_certainty(trained.model) as tape:
        trained.train()
    assert len(tape) == 2
    recorded = torch.cat([part.log_probs for part in tape])
    old, mask = trained.batch["old_per_token_logps"], trained.batch["completion_mask"]
    torch.testing.assert_close(recorded[:, -old.size(1) :] * mask, old * mask)


def test_a_model_that_is_named_is_loaded_in_float32(tmp_path: Path) -> None:
    """AdamW's steps would be lost in a checkpoint's own 16 bits (docs/footguns.md)."""
    tiny.model().bfloat16().save_pretrained(tmp_path / "half")
    trainer = tiny.trainer(tmp_path / "run", policy=str(tmp_path / "half"))
    assert {p.dtype for model in (trainer.model, trainer.ref_model) for p in model.parameters()} == {torch.float32}
