"""The mask through TRL's own loss, at beta > 0 and away from the reference: what is dropped pulls at nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from sif_trainer.trainer.trainer import SIFTrainer
from sif_trainer.trainer.update_mask import apply_update_mask, replace_rows

KEEP = torch.tensor([True, True, False, False])  # two groups of two, the second one dropped
LOSSES = ("grpo", "dr_grpo", "dapo")


def trainer(folder: Path, loss_type: str = "grpo") -> SIFTrainer:
    trained = tiny.trainer(folder, loss_type=loss_type)
    trained.model.train()
    trained.current_gradient_accumulation_steps = 1  # set by the training loop
    return trained


def batch(rows: list[int] | None = None) -> dict[str, Tensor]:
    """Four completions of unequal length as TRL hands them over; the reference is somewhere else than the policy."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([6, 3, 5, 2])
    made = {
        "prompt_ids": torch.randint(3, 40, (4, 5), generator=generator),
        "prompt_mask": torch.ones(4, 5, dtype=torch.long),
        "completion_ids": torch.randint(3, 40, (4, 6), generator=generator),
        "completion_mask": (torch.arange(6) < lengths[:, None]).long(),
        "advantages": torch.tensor([0.7, -0.7, 0.0, 0.0]),
        "ref_per_token_logps": -4 * torch.rand(4, 6, generator=generator),
    }
    made = {name: value if rows is None else value[rows] for name, value in made.items()}
    return made | {"num_items_in_batch": made["completion_mask"].sum()}


def masked(
    inputs: dict[str, Tensor], keep: Tensor, loss_type: str = "grpo", normalize_by: str = "kept"
) -> dict[str, Tensor]:
    apply_update_mask(inputs, keep, len(keep), int(keep.sum()), loss_type, normalize_by, lambda count: count)
    return inputs


def gradients(trained: SIFTrainer, inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient of the weights, and (B,) largest gradient that reaches each row's embeddings."""
    seen: list[Tensor] = []
    hook = trained.model.get_input_embeddings().register_forward_hook(
        lambda m, a, out: seen.append(out) or out.retain_grad()
    )
    trained.model.zero_grad()
    loss = trained._compute_loss(trained.model, inputs)
    loss.backward()
    hook.remove()
    flat = torch.cat([p.grad.flatten() for p in trained.model.parameters() if p.grad is not None])
    return loss.detach(), flat, seen[0].grad.abs().amax((1, 2))


@pytest.mark.parametrize("loss_type", LOSSES)
def test_a_dropped_group_has_a_gradient_of_exactly_zero(tmp_path: Path, loss_type: str) -> None:
    *_, rows = gradients(trainer(tmp_path, loss_type), masked(batch(), KEEP, loss_type))
    assert (rows[KEEP] > 0).all()
    assert (rows[~KEEP] == 0).all()


def test_without_the_mask_a_group_of_advantage_zero_still_pulls_through_the_kl_term(tmp_path: Path) -> None:
    """What stock TRL does with a group of equal rewards, and the reason for the mask."""
    *_, rows = gradients(trainer(tmp_path), batch())
    assert (rows > 0).all()


@pytest.mark.parametrize("loss_type", LOSSES)
def test_the_masked_batch_is_the_kept_group_alone(tmp_path: Path, loss_type: str) -> None:
    trained = trainer(tmp_path, loss_type)
    loss, gradient, _ = gradients(trained, masked(batch(), KEEP, loss_type))
    alone, expected, _ = gradients(trained, batch(rows=[0, 1]))
    torch.testing.assert_close(loss, alone)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("loss_type", LOSSES)
def test_doubling_the_dropped_rows_changes_nothing_under_kept(tmp_path: Path, loss_type: str) -> None:
    trained = trainer(tmp_path, loss_type)
    doubled_rows = [0, 1, 2, 3, 2, 3]
    results = {}
    for normalize_by in ("kept", "all"):
        _, single, _ = gradients(trained, masked(batch(), KEEP, loss_type, normalize_by))
        doubled = masked(batch(doubled_rows), KEEP[doubled_rows], loss_type, normalize_by)
        results[normalize_by] = (single, gradients(trained, doubled)[1])
    torch.testing.assert_close(*results["kept"], rtol=1e-4, atol=1e-7)
    single, doubled = results["all"]
    assert doubled.norm() < 0.9 * single.norm()


@pytest.mark.parametrize("normalize_by", ["kept", "all"])
@pytest.mark.parametrize("loss_type", LOSSES)
def test_a_batch_that_keeps_nothing_has_a_loss_of_zero_that_can_be_backpropagated(
    tmp_path: Path, loss_type: str, normalize_by: str
) -> None:
    nothing = masked(batch(), torch.zeros(4, dtype=torch.bool), loss_type, normalize_by)
    loss, gradient, _ = gradients(trainer(tmp_path, loss_type), nothing)
    assert loss == 0
    assert (gradient == 0).all()


def test_the_mask_is_for_the_loss_alone_and_leaves_attention_as_it_was() -> None:
    inputs = masked(batch(), KEEP)
    assert torch.equal(inputs["completion_mask"], batch()["completion_mask"])
    assert inputs["tool_mask"].tolist() == [[1] * 6, [1] * 6, [0] * 6, [0] * 6]
    assert inputs["loss_scale"].dim() == 0 and inputs["loss_scale"].item() == 2.0


def test_tool_tokens_stay_masked() -> None:
    inputs = batch() | {"tool_mask": torch.tensor([[1, 0, 1, 1, 1, 1]] * 4)}
    assert masked(inputs, KEEP)["tool_mask"].tolist() == [[1, 0, 1, 1, 1, 1]] * 2 + [[0] * 6] * 2


def test_the_token_count_of_dapo_is_taken_behind_the_mask_and_over_all_processes() -> None:
    inputs = batch()
    apply_update_mask(inputs, KEEP, 8, 4, "dapo", "kept", lambda count: 10 * count)
    assert inputs["num_items_in_batch"] == 10 * (6 + 3)
    assert inputs["loss_scale"] == 1
    whole = masked(batch(), KEEP, "dapo", "all")
    assert whole["num_items_in_batch"] == 6 + 3 + 5 + 2


def test_the_scale_counts_the_rows_of_all_processes() -> None:
    inputs = batch()
    apply_update_mask(
        inputs, KEEP, num_rows=512, num_kept=128, loss_type="grpo", normalize_by="kept", sum_over_processes=sum
    )
    assert inputs["loss_scale"] == 4


def test_rows_that_are_not_finite_would_poison_the_gradient_behind_any_mask(tmp_path: Path) -> None:
    trained = trainer(tmp_path)
    _, expected, _ = gradients(trained, masked(batch(), KEEP))
    results = {}
    for name, replaced in (("left", False), ("replaced", True)):
        inputs = batch()
        inputs["ref_per_token_logps"][2] = torch.nan
        if replaced:
            replace_rows(inputs, inputs["ref_per_token_logps"].isnan().any(1))
        results[name] = gradients(trained, masked(inputs, KEEP))[1]
    assert results["left"].isnan().any()
    torch.testing.assert_close(results["replaced"], expected, rtol=1e-5, atol=1e-7)


def test_a_bad_row_becomes_a_copy_of_a_finite_one() -> None:
    inputs = batch() | {"loss_scale": torch.tensor(2.0), "names": ["a", "b", "c", "d"]}
    replace_rows(inputs, torch.tensor([True, False, False, True]))
    for name, original in batch().items():
        if original.dim():
            assert torch.equal(inputs[name], original[[1, 1, 2, 1]]), name
    assert inputs["num_items_in_batch"] == batch()["num_items_in_batch"]
    assert inputs["loss_scale"] == 2 and inputs["names"] == ["a", "b", "c", "d"]


def test_without_bad_rows_nothing_is_touched_and_with_only_bad_rows_the_model_is_blamed() -> None:
    inputs = batch()
    replace_rows(inputs, torch.zeros(4, dtype=torch.bool))
    assert all(torch.equal(inputs[name], value) for name, value in batch().items())
    with pytest.raises(ValueError, match=r"every response of this process.*not finite.*earlier checkpoint"):
        replace_rows(inputs, torch.ones(4, dtype=torch.bool))
