"""A user says prompts per step and group size; the rest follows, or the nearest possible numbers are named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.trainer.batch import plan_batch


def test_the_papers_step_on_one_and_on_eight_processes() -> None:
    one = plan_batch(64, 8, world_size=1)
    assert (one.per_device_train_batch_size, one.gradient_accumulation_steps) == (8, 64)
    assert one.explain() == (
        "64 prompts x 8 responses = 512 completions per step = "
        "1 process x 64 accumulation steps x 8 completions per device"
    )
    eight = plan_batch(64, 8, world_size=8)
    assert (eight.per_device_train_batch_size, eight.gradient_accumulation_steps) == (8, 8)
    assert "8 processes x 8 accumulation steps x 8 completions per device" in eight.explain()


def test_the_papers_epoch_skips_sixty_prompts() -> None:
    explained = plan_batch(64, 8, world_size=1).explain_epoch(7420)
    assert explained == "7,420 prompts = 115 steps per epoch, the last 60 of each shuffle are skipped"


def test_either_size_may_be_given_and_the_other_follows() -> None:
    assert plan_batch(16, 8, 2, per_device_train_batch_size=16).gradient_accumulation_steps == 4
    assert plan_batch(16, 8, 2, gradient_accumulation_steps=4).per_device_train_batch_size == 16
    assert plan_batch(16, 8, 2, 16, 4) == plan_batch(16, 8, 2, 16)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(2, 12), st.integers(1, 8))
def test_a_derived_plan_covers_the_step_with_at_most_eight_completions_per_device(
    prompts: int, group: int, world_size: int
) -> None:
    try:
        plan = plan_batch(prompts, group, world_size)
    except ValueError:
        assert prompts * group % world_size
        return
    assert world_size * plan.per_device_train_batch_size * plan.gradient_accumulation_steps == prompts * group
    assert 1 <= plan.per_device_train_batch_size <= 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((64, 1, 1), "num_generations=1: a group needs at least 2 responses"),
        ((0, 8, 1), "prompts_per_step=0 must be at least 1"),
        ((5, 3, 4), "15 completions can't be shared equally by 4 processes; nearest valid prompts_per_step: 4, 8"),
        ((4, 8, 1, 5), "per_device_train_batch_size=5 completions does not divide the 32 .*nearest valid: 2, 4, 8"),
        ((4, 8, 1, 0), "per_device_train_batch_size=0 .*nearest valid: 1, 2, 4"),
        ((4, 8, 1, None, 5), "gradient_accumulation_steps=5 does not divide the 32 .*nearest valid: 2, 4, 8"),
        ((4, 8, 1, 8, 5), "gradient_accumulation_steps=5 contradicts 32 completions .*at 8 per device, which needs 4"),
    ],
)
def test_an_impossible_combination_names_the_nearest_possible_ones(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_batch(*arguments)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(2, 12), st.integers(1, 8), st.integers(1, 64))
def test_what_is_named_as_nearest_works(prompts: int, group: int, world_size: int, per_device: int) -> None:
    try:
        plan_batch(prompts, group, world_size, per_device)
    except ValueError as error:
        setting, suggestions = re.search(r"nearest valid(?: (\w+))?: ([\d, ]+)$", str(error)).groups()
        for value in map(int, suggestions.split(", ")):
            plan_batch(value, group, world_size) if setting else plan_batch(prompts, group, world_size, value)
