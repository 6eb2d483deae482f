"""The checks of a training recipe that need no weights: what would go wrong, or be regretted, after hours.

    for finding in check_training(subject): print(finding)

Each check is a function from the `Subject` to findings, listed in `CHECKS`; docs/check.md says what each is for, and
tests/trainer/test_check.py has a failing example of each. What contradicts itself is refused earlier, by
trainer/config.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from sif_trainer.data.prompts import PromptSet
from sif_trainer.trainer.batch import BatchPlan
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.launched import Launch
from sif_trainer.trainer.memory import weight_dtype

LONG_FOR_TRANSFORMERS = 512  # completions beyond this many tokens are what vLLM is for
SMALL_RATE = 1e-4  # a step of AdamW near this size, relative to a weight of 0.02, is lost in bf16


@dataclass(frozen=True)
class Finding:
    """What a check found: fine or worth knowing (`note`), to be regretted (`warning`), or fatal (`problem`)."""

    level: Literal["note", "warning", "problem"]
    check: str
    text: str


@dataclass(frozen=True)
class Subject:
    """All that is known of a run before its weights are loaded."""

    recipe: Any
    config: SIFConfig
    launch: Launch
    batch: BatchPlan
    prompts: PromptSet
    tokenizer: Any
    model_config: Any
    end_ids: tuple[int, ...]
    on_cpu: bool

    @property
    def steps_per_epoch(self) -> int:
        """Whole steps of an epoch; 0 where there are fewer prompts than one takes."""
        return len(self.prompts.dataset) // self.batch.prompts_per_step

    @property
    def steps_of_epochs(self) -> int:
        """Steps of all epochs, as the trainer rounds them."""
        return math.ceil(self.config.num_train_epochs * self.steps_per_epoch)

    @property
    def num_steps(self) -> int:
        """Steps of the run."""
        return self.config.max_steps if self.config.max_steps > 0 else self.steps_of_epochs


def check_training(subject: Subject) -> Iterator[Finding]:
    """Run every check, in the order of `CHECKS`."""
    for name, check in CHECKS.items():
        for level, text in check(subject):
            yield Finding(level, name, text)


Told = Iterator[tuple[Literal["note", "warning", "problem"], str]]


def batch(subject: Subject) -> Told:
    """Arithmetic of a step, steps of an epoch, prompts that are skipped, steps in all."""
    plan, config, count = subject.batch, subject.config, len(subject.prompts.dataset)
    yield "note", plan.explain()
    if not subject.steps_per_epoch:
        yield "problem", f"{count} prompts, fewer than prompts_per_step={plan.prompts_per_step}: no epoch has a step"
        return
    yield "note", plan.explain_epoch(count)
    steps, epochs = subject.num_steps, subject.num_steps / subject.steps_per_epoch
    yield "note", f"{steps:,} steps, {epochs:.3g} epochs, {steps * plan.prompts_per_step:,} prompts seen"
    if 0 < subject.steps_of_epochs < config.max_steps:
        yield (
            "warning",
            f"max_steps={config.max_steps} is more than num_train_epochs={config.num_train_epochs:g} gives "
            f"({subject.steps_of_epochs}); max_steps wins, and prompts are seen again",
        )
    if config.save_strategy == "steps" and config.save_steps > steps:
        text = f"save_steps={config.save_steps:g} is past the end ({steps}): a killed run starts from nothing"
        yield "warning", text


def prompts(subject: Subject) -> Told:
    """Token lengths, and how many prompts are left out as too long."""
    lengths, limit = sorted(subject.prompts.lengths), subject.recipe.max_prompt_length
    ninety_fifth = lengths[min(int(0.95 * len(lengths)), len(lengths) - 1)]
    yield "note", subject.prompts.explain()
    yield (
        "note",
        f"tokens per prompt: least {lengths[0]}, median {statistics.median(lengths):g}, 95 % {ninety_fifth}, most "
        f"{lengths[-1]}; limit {limit}",
    )
    if subject.prompts.num_too_long > 0.1 * subject.prompts.num_read:
        share = subject.prompts.num_too_long / subject.prompts.num_read
        yield "warning", f"{share:.0%} of the prompts are left out; max_prompt_length={ninety_fifth} would keep 95 %"
    yield "note", "of each row only prompt and id, and columns that a monitor names, reach the trainer"


def rendered(subject: Subject) -> Told:
    """One prompt as the model reads it, and the tokens that end a response."""
    yield "note", f"{subject.prompts.rendered!r}"
    names = [f"{subject.tokenizer.decode([i])!r} ({i})" for i in subject.end_ids]
    if not names:
        yield "problem", "no token ends a response: every one would run to the limit; set eos_token in the tokenizer"
        return
    yield "note", f"a response ends with {' or '.join(names)}"
    ending = _end_of_turn(subject.tokenizer)
    if ending is not None and ending not in subject.end_ids:
        yield (
            "warning",
            f"the chat template ends a turn with {subject.tokenizer.decode([ending])!r} ({ending}), which does not "
            "end a response here: text would go on after the turn and be trained on; add it to eos_token_id of the "
            "model's generation_config.json",
        )


def windows(subject: Subject) -> Told:
    """Whether responses within the limit can be long enough to vote."""
    config, rule = subject.config, subject.config.windows
    if not config.find_rule().needs_windows:
        yield "note", f"feedback={config.feedback} reads no windows"
        return
    limit = config.max_completion_length or 0
    yield "note", f"responses of {rule.min_length} to {limit} tokens vote"
    if 2 * rule.min_length > limit:
        yield (
            "warning",
            f"a response votes from {rule.min_length} tokens on, more than half of max_completion_length={limit}: few "
            "may be eligible; lower window_size or min_stride, or raise the limit",
        )


def context(subject: Subject) -> Told:
    """Whether prompt and completion fit the model and the engine."""
    needed = subject.prompts.max_length + (subject.config.max_completion_length or 0)
    room = getattr(subject.model_config.get_text_config(), "max_position_embeddings", None)
    if room is not None and needed > room:
        yield (
            "problem",
            f"the longest prompt and completion together have {needed} tokens, the model {room} positions; lower "
            "max_completion_length or max_prompt_length",
        )
    engine = subject.config.vllm_max_model_length
    if subject.config.use_vllm and engine is not None and needed > engine:
        yield "problem", f"prompt and completion may take {needed} tokens, vllm_max_model_length={engine}; raise it"


def precision(subject: Subject) -> Told:
    """Whether an optimizer step is lost in the weights' own rounding."""
    config, launch = subject.config, subject.launch
    if subject.recipe.trains_adapter:  # PEFT keeps an adapter in fp32
        return
    dtype = weight_dtype(subject.recipe.dtype, subject.model_config, subject.on_cpu)
    keeps_fp32 = launch.strategy.startswith("zero") or (launch.strategy == "fsdp2" and launch.mixed_precision != "no")
    if dtype != torch.float32 and not keeps_fp32 and config.learning_rate < SMALL_RATE:
        yield (
            "warning",
            f"weights in {str(dtype).removeprefix('torch.')} and learning_rate={config.learning_rate:g}: most updates "
            "are smaller than the distance between two such numbers and are lost; set dtype=float32 (computation "
            "stays in bf16 with bf16=true), or launch with ZeRO or FSDP2, which keep fp32 weights",
        )


def sharding(subject: Subject) -> Told:
    """Combinations that are known to hang, to crawl, or to be refused late."""
    config, launch, lora = subject.config, subject.launch, subject.recipe.trains_adapter
    if launch.strategy == "zero3" and not config.use_vllm:
        if not config.ds3_gather_for_generation:
            yield (
                "problem",
                "ZeRO-3 with ds3_gather_for_generation=false and without vLLM: generation over sharded weights waits "
                "for ever once processes need different numbers of tokens; use ZeRO-2, or vLLM",
            )
        yield "warning", "ZeRO-3 gathers all weights to generate: use_vllm=true, or ZeRO-2 where the weights fit"
    if subject.recipe.load_in_4bit and launch.strategy in ("zero3", "fsdp2"):
        yield "problem", f"load_in_4bit cannot be sharded by {launch.strategy} here; use ddp.yaml or zero2.yaml"
    if config.use_vllm and config.vllm_mode == "colocate" and lora:
        yield (
            "warning",
            "vLLM in the trainer's process with an adapter has hung for others (trl#3671); prefer vllm_mode=server",
        )
    if launch.num_processes > 1 and subject.config.save_only_model:
        yield "warning", "save_only_model=true leaves out the optimizer: a killed run starts from nothing"


def engine(subject: Subject) -> Told:
    """Whether generation is left to an engine that is slow for it, and recompilation."""
    config = subject.config
    long = (config.max_completion_length or 0) > LONG_FOR_TRANSFORMERS
    if not config.use_vllm and long and not subject.on_cpu:
        yield (
            "warning",
            f"completions of up to {config.max_completion_length} tokens by transformers: expect most of the time "
            "and of the memory to go there; set use_vllm=true",
        )
    if config.certainty_source == "engine" and config.vllm_importance_sampling_correction:
        yield (
            "warning",
            "certainty_source=engine spares no pass while vllm_importance_sampling_correction=true makes one, out of "
            "which certainty comes for free; set the latter to false, or certainty_source=model",
        )
    if config.torch_compile and not config.pad_to_multiple_of:
        yield "warning", "torch_compile recompiles for every padded length; set pad_to_multiple_of=128"


def trackers(subject: Subject) -> Told:
    """Who is told about the run."""
    named = [name for name in subject.config.report_to or [] if name != "none"]
    if named:
        yield "note", f"metrics go to {', '.join(named)}; WANDB_MODE=offline keeps wandb's on this machine"


CHECKS: dict[str, Callable[[Subject], Told]] = {
    "batch": batch,
    "prompts": prompts,
    "rendered": rendered,
    "windows": windows,
    "context": context,
    "precision": precision,
    "sharding": sharding,
    "engine": engine,
    "trackers": trackers,
}


def _end_of_turn(tokenizer: Any) -> int | None:
    """The special token that the chat template puts behind what the assistant said."""
    if tokenizer.chat_template is None:
        return None
    turn = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "zzz"}]
    text = tokenizer.apply_chat_template(turn, tokenize=False).rpartition("zzz")[2]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return next((int(i) for i in ids if i in tokenizer.all_special_ids or i in tokenizer.added_tokens_decoder), None)
