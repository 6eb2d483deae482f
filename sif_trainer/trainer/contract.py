"""All of TRL that `SIFTrainer` leans on, by name, each with its reason; a TRL upgrade fails here, before a run does.

    check_contract()      # [] or one line per breach; milliseconds, because it reads compiled code and runs nothing

How these things behave is checked by running them: tests/contract/test_trl.py.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from types import CodeType

import trl
from trl import GRPOConfig, GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer import grpo_trainer
from trl.trainer.utils import RepeatSampler

SUPPORTED = "trl>=1.14.2,!=1.15.0,<1.17"

# Method -> its parameters, and why. The first six are overridden.
METHODS: dict[str, tuple[tuple[str, ...], str]] = {
    "_generate": (
        ("self", "prompts"),
        "returns prompt ids, completion ids and tool mask first, and vLLM's log-probabilities fifth, which are "
        "remembered for scoring",
    ),
    "_calculate_rewards": (
        ("self", "inputs", "prompts", "completions", "completion_ids_list"),
        "returns the rewards of all processes, a column per function; the vote is written into the first",
    ),
    "_generate_and_score_completions": (
        ("self", "inputs"),
        "generates, scores and returns this process's batch, into which advantages and update mask are written",
    ),
    "_compute_loss": (("self", "model", "inputs"), "returns the loss that the update mask's scale multiplies"),
    "_get_train_sampler": (("self", "dataset"), "makes the sampler that is seeded anew for every epoch"),
    "_load_optimizer_and_scheduler": (
        ("self", "checkpoint"),
        "is called with the checkpoint that a run goes on from, in which a teacher's weights are",
    ),
    "_log_metric": (("self", "name", "value"), "collects a metric; the mean over processes is logged with TRL's own"),
}

# What a constructed trainer has, and why.
ATTRIBUTES: dict[str, str] = {
    "accelerator": "gathers what the vote needs, and knows device, rank and mixed precision",
    "args": "holds the settings",
    "eos_token_ids": "tells a complete response from a truncated one",
    "loss_type": "decides the denominator of the update mask",
    "mask_truncated_completions": "makes truncated responses not eligible",
    "model": "is the unwrapped policy; its `training` flag tells training from evaluation",
    "num_generations": "is the size of a group",
    "pad_to_multiple_of": "is how far TRL pads the completions that its scoring pass sees",
    "reward_func_names": "names the monitors",
    "state": "counts the steps",
    "temperature": "is the temperature at which certainty is computed",
    "_tokenizer": "has the padding token",
    "vllm_generation": "holds the colocated engine",
}

# Key of a batch -> the methods whose code must know it, and why.
KEYS: dict[str, tuple[tuple[str, ...], str]] = {
    "advantages": (("_generate_and_score_completions", "_compute_loss"), "is overwritten by the vote's"),
    "completion_mask": (("_generate_and_score_completions", "_compute_loss"), "marks the tokens of a completion"),
    "num_items_in_batch": (
        ("_generate_and_score_completions", "_compute_loss"),
        "is the token count that 'dapo' uses",
    ),
    "tool_mask": (("_generate_and_score_completions", "_compute_loss"), "masks the loss, and not attention"),
    "step_time": (("training_step",), "is the time of which the shares of generate, score and update are taken"),
}

# Method of TRL's vLLM generation -> what its code must mention, and why.
ENGINE: dict[str, tuple[tuple[str, ...], str]] = {
    "_init_vllm": (("LLM",), "makes the colocated engine, which is given an argument more (engine_certainty.py)"),
    "sync_weights": (
        ("_iter_named_params", "driver_worker", "load_weights", "model_runner"),
        "hands over the weights that are compared on both sides (engine_weights.py)",
    ),
}

# Setting that SIFConfig declares anew, pins or refuses -> why.
SETTINGS: dict[str, str] = {
    "beta": "weighs the KL term",
    "disable_dropout": "keeps certainty from being random",
    "entropy_coef": "is refused where the loss scale would multiply it",
    "epsilon": "clips the ratio",
    "generation_batch_size": "must be one step",
    "importance_sampling_level": "must stay per token",
    "learning_rate": "is the paper's by default",
    "loss_type": "must have a denominator that goes with the mask",
    "mask_truncated_completions": "must stay off by default",
    "max_completion_length": "must leave room for the windows",
    "min_p": "must not cut the distribution",
    "num_generations": "is the size of a group",
    "num_iterations": "must stay 1 by default",
    "reward_weights": "gives monitors the weight 0",
    "scale_rewards": "must stay per group",
    "shuffle_dataset": "must stay on by default",
    "steps_per_generation": "must be one step",
    "temperature": "is shared by sampling and certainty",
    "top_entropy_quantile": "must stay 1 by default",
    "top_k": "must not cut the distribution",
    "top_p": "must not cut the distribution",
    "use_adaptive_entropy": "is refused where the loss scale would multiply it",
    "use_bias_correction_kl": "must be off: it changes the KL gradient",
    "vllm_importance_sampling_mode": "must not give long responses the weight 0",
}


def check_contract() -> list[str]:
    """Return one line for everything of the installed TRL that is not as relied on, with what to do about it."""
    return [
        f"trl {trl.__version__}: {what}; SIFTrainer relies on it because it {why}. "
        f"Install {SUPPORTED}, or adapt sif_trainer/trainer"
        for what, why in _breaches()
    ]


def _breaches() -> Iterator[tuple[str, str]]:
    for name, (parameters, why) in METHODS.items():
        method = getattr(GRPOTrainer, name, None)
        found = None if method is None else tuple(inspect.signature(method).parameters)
        if found != parameters:
            yield f"GRPOTrainer.{name} takes {found}, not {parameters}", why

    known = {name for cls in GRPOTrainer.__mro__ for name in _names(cls.__dict__.get("__init__"))}
    for name, why in ATTRIBUTES.items():
        if name not in known:
            yield f"GRPOTrainer.__init__ no longer sets '{name}'", why

    for key, (methods, why) in KEYS.items():
        for name in methods:
            if key not in _constants(_code(getattr(GRPOTrainer, name, None))):
                yield f"GRPOTrainer.{name} no longer knows the key '{key}'", why

    for name, (parts, why) in ENGINE.items():
        for part in parts:
            if part not in _names(getattr(VLLMGeneration, name, None)):
                yield f"VLLMGeneration.{name} no longer uses '{part}'", why

    settings = {field.name for field in dataclasses.fields(GRPOConfig)}
    for name, why in SETTINGS.items():
        if name not in settings:
            yield f"GRPOConfig no longer has '{name}'", why

    if "create_model_from_path" not in _names(GRPOTrainer.__init__) or not hasattr(
        grpo_trainer, "create_model_from_path"
    ):
        yield (
            "grpo_trainer.create_model_from_path no longer makes the reference model",
            "is replaced by a copy of the policy where there is nothing to load (trainer/reference.py)",
        )
    for name in ("generator", "shuffle"):
        if name not in _names(RepeatSampler.__init__):
            yield f"RepeatSampler no longer has '{name}'", "is seeded by seed and epoch (trainer/sampler.py)"


def _code(function: Callable[..., object] | None) -> CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None) if function is not None else None


def _names(function: Callable[..., object] | None) -> set[str]:
    """Attributes and globals that a function's code mentions."""
    code = _code(function)
    return set() if code is None else set(code.co_names)


def _constants(code: CodeType | None) -> set[object]:
    """Literals in a function's code, those in tuples (the keys of a dict display) and inner functions included."""
    found: set[object] = set()
    pending = [] if code is None else list(code.co_consts)
    while pending:
        constant = pending.pop()
        if isinstance(constant, tuple):
            pending.extend(constant)
        elif isinstance(constant, CodeType):
            pending.extend(constant.co_consts)
        else:
            found.add(constant)
    return found
