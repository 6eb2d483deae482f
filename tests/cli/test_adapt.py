"""`sif adapt`: trains on a benchmark's prompts alone, evaluates fixed checkpoints, says that it is transductive."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from sif_trainer.cli.adapt import AdaptRecipe, training_of
from sif_trainer.cli.main import main
from sif_trainer.runs.schema import build
from sif_trainer.trainer.factory import TrainRecipe

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny

NUM_PROBLEMS = 6


def data(folder: Path, answers: list[str]) -> Path:
    folder.mkdir()
    rows = [{"id": f"q{i}", "problem": f"how many is {i}", "answer": answer} for i, answer in enumerate(answers)]
    (folder / "gsm8k_test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    policy = tmp_path / "policy"
    tiny.model(max_position_embeddings=512).save_pretrained(policy)
    tiny.tokenizer().save_pretrained(policy)
    settings = {
        "benchmark": "gsm8k",
        "model": str(policy),
        **tiny.VOTE,
        "prompts_per_step": 8,  # more than the benchmark has: its problems are repeated
        "max_completion_length": 8,
        "max_steps": 4,
        "save_steps": 2,
        "learning_rate": 0.01,
        "num_train_epochs": 10,
        "eval_num_samples": 2,
        "eval_k": [1, 2],
    }
    path = tmp_path / "adapt.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def test_a_table_over_checkpoints_and_no_road_for_answers(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [str(i) for i in range(NUM_PROBLEMS)]
    results = {}
    for name, golds in (("straight", answers), ("scrambled", answers[::-1])):
        folder = data(tmp_path / f"data-{name}", golds)
        assert main(["adapt", str(recipe), f"data_dir={folder}", "--run", str(tmp_path / name)]) == 0
        results[name] = capsys.readouterr().out
        rows = json.loads((tmp_path / name / "summary.json").read_text())["checkpoints"]
        assert [(row["step"], row["transductive"]) for row in rows] == [(0, True), (2, True), (4, True)]
        assert all(row["num_problems"] == NUM_PROBLEMS for row in rows)
        for word in ("transductive", "avg@2", "pass@1", "pass@2"):
            assert word in results[name]
        assert (tmp_path / name / "adaptation.png").stat().st_size > 0
    straight, scrambled = (load_file(tmp_path / name / "last/model.safetensors") for name in results)
    assert all(straight[name].equal(scrambled[name]) for name in straight)
    before = load_file(tmp_path / "policy" / "model.safetensors")
    assert any(not before[name].equal(straight[name]) for name in before), "nothing was trained"
    assert main(["adapt", str(recipe), f"data_dir={folder}", "--run", str(tmp_path / "scrambled")]) == 0
    assert capsys.readouterr().out == results["scrambled"]


def test_an_adapter_is_merged_as_in_training(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, run = data(tmp_path / "data", ["1", "2"]), tmp_path / "run"
    changed = ["lora_r=2", "merge=true", "max_steps=2", "warmup_steps=0", "eval_num_samples=1", "eval_k=[1]"]
    assert main(["adapt", str(recipe), f"data_dir={folder}", "--run", str(run), *changed]) == 0
    before, merged = (load_file(p / "model.safetensors") for p in (tmp_path / "policy", run / "merged"))
    assert set(merged) == set(before) and any(not before[name].equal(merged[name]) for name in before)
    assert (run / "last" / "adapter_model.safetensors").exists()


def test_weights_are_float32_as_in_training() -> None:
    values = {"benchmark": "gsm8k", "model": "any"}
    assert training_of(build(AdaptRecipe, values)).dtype == TrainRecipe(prompts="any").dtype == "float32"


def test_bad_input(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data(tmp_path / "data", ["1"])
    for overrides, complaint in (
        (["benchmark=gms8k"], "did you mean 'gsm8k'?"),
        (["eval_k=[4]"], "k=4 of pass@k cannot be estimated from num_samples=2"),
        (["eval_num_sample=3"], "did you mean 'eval_num_samples'?"),
    ):
        run = ["adapt", str(recipe), f"data_dir={folder}", "--run", str(tmp_path / "run"), *overrides]
        assert main(run) == 2
        assert complaint in capsys.readouterr().err
