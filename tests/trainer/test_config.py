"""The paper's settings and the pinned TRL defaults by name, and what is refused, with its reason."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig

from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import SIFRule
from sif_trainer.trainer.config import SUPPORTED_LOSSES, SIFConfig

PINNED = {
    "loss_type": "grpo",
    "beta": 0.005,
    "use_bias_correction_kl": False,
    "scale_rewards": "group",
    "num_iterations": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "importance_sampling_level": "token",
    "epsilon": 0.2,
    "mask_truncated_completions": False,
    "disable_dropout": True,
    "vllm_importance_sampling_mode": "token_truncate",
    "top_entropy_quantile": 1.0,
    "shuffle_dataset": True,
    "max_completion_length": 3072,
    "num_generations": 8,
    "advantage_epsilon": 1e-6,
    "normalize_by": "kept",
    "feedback": "sif",
    "learning_rate": 3e-6,
    "lr_scheduler_type": "cosine",
    "num_train_epochs": 1.0,
    "max_grad_norm": 1.0,
    "weight_decay": 0.01,
}
OURS = {**FeedbackSettings.__annotations__, **SIFConfig.__annotations__}
# Not ours to declare, but relied on as they come.
INHERITED = {"steps_per_generation": None, "entropy_coef": 0.0, "delta": None, "off_policy_mask_threshold": None}


def config(folder: Path, **settings: Any) -> SIFConfig:
    return SIFConfig(output_dir=str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False, **settings)


def declared(cls: type) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(cls)}


@pytest.mark.parametrize("name", PINNED)
def test_pinned_default(tmp_path: Path, name: str) -> None:
    assert declared(SIFConfig)[name] == PINNED[name]
    assert getattr(config(tmp_path), name) == PINNED[name]


@pytest.mark.parametrize("name", INHERITED)
def test_inherited_default(name: str) -> None:
    assert declared(SIFConfig)[name] == INHERITED[name]


def test_what_is_pinned_is_declared_here_and_known_to_trl() -> None:
    """A pin that is inherited follows TRL's next change of mind; one that TRL no longer knows pins nothing."""
    assert set(PINNED) <= set(OURS)
    assert set(PINNED) - {"advantage_epsilon", "normalize_by", "feedback"} <= set(declared(GRPOConfig))


def test_nothing_is_sent_unless_a_tracker_is_named(tmp_path: Path) -> None:
    assert config(tmp_path).report_to == []
    assert config(tmp_path, report_to="tensorboard").report_to == ["tensorboard"]


def test_warm_up_is_a_tenth_of_the_run(tmp_path: Path) -> None:
    assert config(tmp_path).get_warmup_steps(200) == 20
    assert config(tmp_path, warmup_steps=11).get_warmup_steps(115) == 11


def test_every_setting_of_ours_says_what_it_is() -> None:
    ours = [field for field in dataclasses.fields(SIFConfig) if field.name in OURS]
    for field in ours:
        assert field.metadata["help"].endswith("."), field.name


def test_the_vote_is_the_papers(tmp_path: Path) -> None:
    assert config(tmp_path).windows == SIFRule()
    scaled = config(tmp_path, num_windows=5, window_size=20, min_stride=10, window_wins=4, peer_win_rate=0.5)
    assert scaled.windows == SIFRule(5, 20, 10, 4, 0.5)


def test_the_batch_is_the_papers(tmp_path: Path) -> None:
    default = config(tmp_path)
    assert default.prompts_per_step == 64
    assert default.per_device_train_batch_size * default.gradient_accumulation_steps == 512
    assert default.steps_per_generation == default.gradient_accumulation_steps
    assert default.generation_batch_size == 512


def test_prompts_per_step_follows_from_the_two_sizes(tmp_path: Path) -> None:
    derived = config(tmp_path, per_device_train_batch_size=16, gradient_accumulation_steps=3, num_generations=4)
    assert derived.prompts_per_step == 12
    assert derived.batch_plan.explain().startswith("12 prompts x 4 responses = 48 completions per step")


def test_processes_share_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(
        ValueError, match="can't be shared equally by 4 processes; nearest valid prompts_per_step: 4, 8"
    ):
        config(tmp_path, prompts_per_step=5, num_generations=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"max_completion_length": 549},
            r"no response could ever be eligible.*100 \+ 50 \* 9 = 550 tokens, but max_completion_length=549",
        ),
        ({"feedback": "votes"}, "feedback='votes' is no rule; choose one of sif, sif_no_peer, "),
        (
            {"feedback": "majority", "num_trained": 3},
            "num_trained=3 must divide num_generations=8",
        ),
        ({"feedback": "co_rewarding", "prompts_per_step": 3}, "prompts_per_step=3 must be even"),
        ({"window_wins": 11}, "window_wins=11 is more than num_windows=10"),
        ({"peer_win_rate": 0.0}, r"peer_win_rate=0.0 must lie in \(0, 1\]"),
        ({"num_generations": 1}, "num_generations=1: a group needs at least 2 responses"),
        ({"prompts_per_step": 0}, "prompts_per_step=0 must be at least 1"),
        ({"per_device_train_batch_size": 7}, "per_device_train_batch_size=7 .* nearest valid: 2, 4, 8$"),
        ({"normalize_by": "some"}, "normalize_by='some' must be 'kept' or 'all'"),
        ({"advantage_epsilon": -1.0}, "advantage_epsilon=-1.0 must not be negative"),
        ({"scale_rewards": "batch"}, "scale_rewards='batch': the method standardises within the group"),
        ({"scale_rewards": "none"}, "scale_rewards='none': the method standardises within the group"),
        (
            {"entropy_coef": 0.01},
            "an entropy bonus would be scaled by the keep rate.*entropy_coef=0.*normalize_by='all'",
        ),
        (
            {"steps_per_generation": 2},
            "normalize_by='kept' counts .* one optimizer step.*leave steps_per_generation out",
        ),
        ({"generation_batch_size": 1024}, "normalize_by='kept' counts .* one optimizer step"),
        ({"loss_type": "bnpo"}, "bnpo.* tokens of each micro-batch, so the update depends on how the batch is split"),
        ({"loss_type": "cispo"}, "cispo.*choose one of grpo, dr_grpo, dapo"),
        ({"loss_type": "sapo"}, "sapo.*soft gate"),
        ({"loss_type": "vespo"}, "vespo.*whole sequences"),
        ({"loss_type": "luspo"}, "luspo.*long responses dominate"),
        ({"loss_type": "new"}, "new.*has not been checked against dropped responses"),
    ],
)
def test_refused_with_a_reason(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(tmp_path, **settings)


def test_a_rule_without_windows_needs_no_room_for_them(tmp_path: Path) -> None:
    assert config(tmp_path, feedback="intuitor", max_completion_length=2).max_completion_length == 2


@pytest.mark.parametrize("loss_type", SUPPORTED_LOSSES)
def test_a_supported_loss_is_taken(tmp_path: Path, loss_type: str) -> None:
    assert config(tmp_path, loss_type=loss_type).loss_type == loss_type


def test_a_generated_batch_of_several_steps_needs_a_denominator_that_allows_it(tmp_path: Path) -> None:
    for settings in ({"normalize_by": "all"}, {"loss_type": "dapo"}):
        assert config(tmp_path, prompts_per_step=4, steps_per_generation=8, **settings).steps_per_generation == 8


def test_an_entropy_bonus_goes_with_all(tmp_path: Path) -> None:
    assert config(tmp_path, entropy_coef=0.01, normalize_by="all").entropy_coef == 0.01


def test_a_save_between_generated_batches_stays_where_it_is(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert config(tmp_path, save_steps=7).save_steps == 7
        assert config(tmp_path, save_steps=6, num_iterations=3).save_steps == 6
        assert config(tmp_path, save_steps=7, num_iterations=3, save_strategy="epoch").save_steps == 7


def test_a_save_inside_a_generated_batch_is_moved_and_said(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="save_steps=7 would save inside a generated batch, which lasts 3 steps; moved to 9"
    ):
        assert config(tmp_path, save_steps=7, num_iterations=3).save_steps == 9
    with pytest.warns(UserWarning, match="which lasts 2 steps; moved to 8"):
        moved = config(tmp_path, prompts_per_step=4, steps_per_generation=8, normalize_by="all", save_steps=7)
    assert moved.save_steps == 8
