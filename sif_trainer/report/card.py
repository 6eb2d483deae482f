"""A model card beside every model that a run saved: `README.md` in `last/`, `best/` and the others.

    write_cards(Path("runs/train/smoke/quickstart"))

Method, recipe, seed, results with intervals, whether they are transductive, and limits; the front matter is the hub's.
`sif train` and `sif adapt` end with it. TRL's own card is not used: it would call the method GRPO.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sif_trainer.report.blocks import interval, percent
from sif_trainer.report.evaluation import markdown_table
from sif_trainer.report.run import Run, read_run
from sif_trainer.runs.flat_yaml import dump
from sif_trainer.runs.records import write_atomically

Values = Mapping[str, Any]
_SIF = (
    "Selective Internal Feedback: every response's tokens are summarised by windows of ranked self-certainty; within "
    "the group of a prompt's responses, windows vote, then peers; the vote gives a reward of 0 or 1 and a mask, and "
    "GRPO's loss is computed on what the mask keeps."
)
_TRANSDUCTIVE = (
    "**Transductive.** The model was trained on the very problems of `{benchmark}`, without their answers; its scores "
    "on them say nothing about other problems. Checkpoints are of fixed steps; none was chosen by correctness."
)


def write_cards(folder: Path) -> None:
    """Write the card of every model that the finished run in the folder saved."""
    run = read_run(folder)
    names = ["last", "merged", "best", "healthy", *(f"checkpoint-{step}" for step in _evaluated_steps(run))]
    for name in names:
        if (folder / name).is_dir():
            write_atomically(folder / name / "README.md", card(run, name))


def card(run: Run, name: str) -> str:
    """Return the card of the model that the run saved under a name."""
    results = _adapted(run, name) if run.kind == "adapt" else _held_out(run, _moment(run, name))
    library = "peft" if (run.path / name / "adapter_config.json").exists() else "transformers"
    front = {
        **_hub_ids(run.config),
        "library_name": library,
        "pipeline_tag": "text-generation",
        "tags": ["sif-trainer", "grpo", "reinforcement-learning", *([] if _sees_answers(run) else ["label-free"])],
        **_model_index(run, results),
    }
    last = run.manifest["starts"][-1]
    versions = ", ".join(f"{package} {version}" for package, version in last["versions"].items())
    hardware = ", ".join(last["gpus"]) or f"{last['num_cpus']} CPU cores"
    parts = [
        f"---\n{dump(front)}---\n\n# {run.label}, `{name}`",
        _what(run, name),
        f"## Results\n\n{_results(run, name, results)}",
        f"## Limits\n\n{_limits(run)}",
        f"## Recipe\n\nSeed {run.manifest['seed']}; {versions}; commit {last['git'] or 'unknown'}; {hardware}.",
        _differs(run),
        f"Run it again with `sif {run.manifest['command']} recipe.yaml`, where `recipe.yaml` is:\n\n"
        f"```yaml\n{dump(run.config)}```\n",
    ]
    return "\n\n".join(part for part in parts if part)


def _what(run: Run, name: str) -> str:
    rule = run.config.get("feedback")
    steps = (run.records("metrics") or [{"step": 0}])[-1]["step"]
    method = _SIF if rule == "sif" else f"The reward is the rule `{rule}` of sif-trainer, under GRPO."
    answers = (
        "**Its reward reads the reference answers:** this is no label-free training."
        if _sees_answers(run)
        else "No reference answer was read in training."
    )
    which = {
        "last": f"the model after the last of {steps} steps",
        "best": "the checkpoint with the highest held-out accuracy",
        "healthy": "the last checkpoint before the monitors of health raised an alarm",
    }.get(_moment(run, name), f"the model after step {name.removeprefix('checkpoint-')}")
    which += ", its adapter merged into the weights" * (name == "merged")
    return f"`{run.config.get('model')}`, trained with sif-trainer on `{_prompts(run)}`; {which}. {method} {answers}"


def _results(run: Run, name: str, results: Sequence[Values]) -> str:
    if not results:
        return "No accuracy was measured in this run."
    columns = list(dict.fromkeys(key for row in results for key in row["scores"]))
    rows = [
        [row["benchmark"], row["setting"], str(row["step"]), *(interval(row["scores"][key]) for key in columns)]
        for row in results
    ]
    table = "\n".join(markdown_table(["problems", "setting", "step", *columns], rows))
    chosen = (
        "\n\nThis checkpoint was chosen by its accuracy on these problems, which flatters it on them."
        if name == "best"
        else ""
    )
    return f"{table}\n\nPercent, with 95 % intervals over problems; step 0 is the model before training.{chosen}"


def _moment(run: Run, name: str) -> str:
    """Which of the run's moments a folder holds: a run that was rolled back ends with its last healthy checkpoint."""
    rolled_back = run.config.get("health") == "rollback" and (run.path / "healthy").is_dir()
    return "healthy" if rolled_back and name in ("last", "merged") else "last" if name == "merged" else name


def _held_out(run: Run, moment: str) -> list[dict[str, Any]]:
    """Held-out accuracy before training and of this model."""
    records = run.records("validation")
    if not records:
        return []
    trained = records[1:] or records
    found = {"last": records[-1], "best": max(trained, key=lambda record: record["accuracy"])}.get(moment)
    shown = {record["step"]: record for record in (records[0], found) if record is not None}
    return [
        {
            "benchmark": str(run.config.get("validation")),
            "setting": "held out",
            "step": step,
            "scores": {
                "accuracy": {
                    "value": record["accuracy"], "low": record["accuracy_low"], "high": record["accuracy_high"],
                }
            },
        }
        for step, record in shown.items()
    ]  # fmt: skip


def _adapted(run: Run, name: str) -> list[dict[str, Any]]:
    """Scores on what was adapted to and on what was held out, before and after; of a checkpoint, its own."""
    checkpoints = (run.summary or {}).get("checkpoints", [])
    last = max((row["step"] for row in checkpoints), default=0)
    step = int(name.partition("-")[2] or last)
    return [
        {
            "benchmark": row["benchmark"],
            "setting": "transductive" if row["transductive"] else "held out",
            "step": row["step"],
            "scores": {
                f"avg@{row['num_samples']}": row["scores"]["avg"], f"maj@{row['num_samples']}": row["scores"]["maj"],
            },
        }
        for row in checkpoints
        if row["step"] in (0, step)
    ]  # fmt: skip


def _limits(run: Run) -> str:
    limits = []
    if run.kind == "adapt":
        limits.append(_TRANSDUCTIVE.format(benchmark=run.config.get("benchmark")))
    if run.config.get("model") == "embedded:cipher":
        limits.append(
            "The cipher world is constructed to show the mechanism; it is no evidence about language models."
        )
    collapsed = (run.summary or {}).get("collapsed_at")
    if collapsed is not None:
        limits.append(f"The monitors of health call the run collapsed at step {collapsed}.")
    limits.append(
        "Training from a model's own certainty can make it confidently wrong: certainty is no truth, and no step "
        "checked an answer. It was one run with one seed. Evaluate before use."
        if not _sees_answers(run)
        else "It was one run with one seed. Evaluate before use."
    )
    return "\n\n".join(limits)


def _differs(run: Run) -> str:
    if not run.paper_diff:
        return ""
    rows = [
        [f"`{key}`", *(f"`{json.dumps(sides[side], ensure_ascii=False)}`" if side in sides else "not set"
                       for side in ("here", "reference"))]
        for key, sides in run.paper_diff.items()
    ]  # fmt: skip
    return "\n".join(
        [
            "Where it differs from the defaults, the paper's where it states one:",
            "",
            *markdown_table(["setting", "here", "default"], rows),
        ]
    )


def _model_index(run: Run, results: Sequence[Values]) -> dict[str, Any]:
    """The hub's machine-readable results: the trained model's, in percent."""
    after = [row for row in results if row["step"] > 0]
    if not after:
        return {}
    entries = [
        {
            "task": {"type": "text-generation"},
            "dataset": {"name": f"{row['benchmark']} ({row['setting']})", "type": row["benchmark"]},
            "metrics": [
                {"type": key, "value": float(percent(estimate["value"])), "name": f"{key}, 95 % {interval(estimate)}"}
                for key, estimate in row["scores"].items()
            ],
        }
        for row in after
    ]
    return {"model-index": [{"name": run.label, "results": entries}]}


def _hub_ids(config: Values) -> dict[str, Any]:
    """The base model and the data set, where they are named as the hub names them."""
    wanted = {"base_model": config.get("model"), "datasets": config.get("prompts")}
    ids = {key: value for key, value in wanted.items() if isinstance(value, str) and _is_hub_id(value)}
    return {key: [value] if key == "datasets" else value for key, value in ids.items()}


def _is_hub_id(name: str) -> bool:
    return bool(re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name)) and not Path(name).exists()


def _prompts(run: Run) -> str:
    return str(run.config.get("prompts") or f"benchmark:{run.config.get('benchmark')}")


def _evaluated_steps(run: Run) -> list[int]:
    """The steps whose checkpoints an adaptation evaluated."""
    return sorted({row["step"] for row in (run.summary or {}).get("checkpoints", ()) if row["step"]})


def _sees_answers(run: Run) -> bool:
    return bool(run.manifest.get("trains_on_reference_answers"))
