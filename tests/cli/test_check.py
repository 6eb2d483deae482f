"""`sif check` and `sif resolve` as a user meets them, on every kind of recipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from sif_trainer.cli.main import main
from sif_trainer.policy.checkpoint import locate
from sif_trainer.runs.recipe import recipe_names

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    tiny.model().save_pretrained(folder / "policy")
    tiny.tokenizer().save_pretrained(folder / "policy")
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"problem": f"say {i}"}) + "\n" for i in range(10)))
    path = folder / "tiny.yaml"
    settings = {"window_size": 2, "min_stride": 1, "max_completion_length": 30, "prompts_per_step": 4}
    path.write_text(
        yaml.safe_dump({"model": str(folder / "policy"), "prompts": str(folder / "prompts.jsonl"), **settings})
    )
    return path


def sif(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_training_recipe_and_its_worst_step(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("save_steps=2", "push_to_hub=true", "--run", tmp_path / "run", "--worst-case")
    status, out, _ = sif(capsys, "check", recipe, *options)
    assert status == 0, out
    for text in (
        "paper      ",
        "window_size: 2, not 100",
        "10 prompts = 2 steps per epoch, the last 2 of each shuffle are skipped",
        "a response ends with '<eos>' (1)",
        "responses of 11 to 30 tokens vote",
        "(computed)",
        "installed packages are within the tested ranges",
        "GiB are free",
        "one step of 4 prompts x 8 responses",
        "each of 34 tokens",
        "0 problems, 0 warnings",
    ):
        assert text in out, text
    assert not (tmp_path / "run").exists()


def test_a_problem_has_a_status(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = sif(capsys, "check", recipe, "max_completion_length=200")
    assert status == 1 and "context    PROBLEM " in out and "1 problems" in out
    status, _, errors = sif(capsys, "check", recipe, "window_size=100")
    assert status == 2 and "no response could ever be eligible" in errors
    status, _, errors = sif(capsys, "check", recipe, "--device", "H10")
    assert status == 2 and "did you mean 'H100'?" in errors
    status, _, errors = sif(capsys, "check", recipe, "monitor=mth")
    assert status == 2 and "mth" in errors


def test_a_worst_step_that_is_not_trained(
    recipe: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    status, _, errors = sif(capsys, "check", recipe, "--worst-case", "--device", "H100")
    assert status == 2 and "this machine, which has no H100" in errors
    status, out, _ = sif(capsys, "check", recipe, "--worst-case", "max_completion_length=200")
    assert status == 1 and "not trained, because of the problems above" in out


def test_prompts_and_a_kind_from_the_command_line(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = yaml.safe_load(recipe.read_text())
    bare = recipe.with_name("bare.yaml")
    bare.write_text(yaml.safe_dump({key: value for key, value in values.items() if key != "prompts"}))
    for command in ("check", "resolve"):
        status, _, errors = sif(capsys, command, bare)
        assert status == 2 and "has none of the keys" in errors
        status, out, errors = sif(capsys, command, bare, f"prompts={values['prompts']}")
        assert status == 0, out + errors


def test_an_adapter_that_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = locate("embedded:cipher").name
    model = AutoModelForCausalLM.from_pretrained(base)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "adapter")
    status, out, errors = sif(capsys, "check", "smoke/evaluate", f"model={tmp_path / 'adapter'}")
    assert status == 0 and "a response ends with '<eos>'" in out, out + errors


def test_a_launch_file_and_a_device(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zero2 = ROOT / "launch" / "accelerate" / "zero2.yaml"
    status, out, _ = sif(
        capsys, "check", recipe, "--launch", zero2, "--device", "H100", "dtype=float32", "save_steps=2"
    )
    assert status == 0, out
    assert "8 processes x 1 accumulation steps x 4 completions per device" in out and "communication" in out


@pytest.mark.parametrize(
    ("recipe_name", "overrides", "told"),
    [
        ("smoke/evaluate", (), "problems x"),
        ("smoke/evaluate", ("max_prompt_length=3",), "prompts have more than max_prompt_length=3 tokens"),
        ("smoke/evaluate", ("max_completion_length=100",), "the model has 128 positions"),
        ("smoke/adapt", (), "problems x 8 samples"),
        ("study/cipher", (), "runs, at equal rollouts and steps"),
    ],
)
def test_other_recipes(
    recipe_name: str, overrides: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, errors = sif(capsys, "check", recipe_name, *overrides, "--run", tmp_path / "run")
    assert status == 0, out + errors
    assert told in out and "0 problems" in out
    assert overrides or "positions" not in out


def test_recipes_of_other_commands_and_launch_files(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, errors = sif(capsys, "check", "jointcore/shopping")
    assert status == 2 and "has none of the keys" in errors
    status, _, errors = sif(capsys, "check", ROOT / "launch" / "accelerate" / "ddp.yaml")
    assert status == 2 and "give a recipe" in errors
    status, _, errors = sif(capsys, "check", "smoke/evaluate", "--worst-case")
    assert status == 2 and "of a training recipe" in errors


def test_resolve(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = sif(capsys, "resolve", recipe, "seed=5")
    values = yaml.safe_load(out)
    assert status == 0 and (values["seed"], values["window_size"], values["num_windows"]) == (5, 2, 10)
    for key, wanted in {
        "model": str(recipe.parent / "policy"),
        "use_vllm": "false",
        "vllm_server_port": "8000",
        "vllm_max_model_length": "",
        "seed": "7",
    }.items():
        status, out, _ = sif(capsys, "resolve", recipe, "seed=7", "--key", key)
        assert (status, out) == (0, wanted + "\n"), key
    status, out, _ = sif(capsys, "resolve", ROOT / "launch/accelerate/zero2.yaml", "--key", "num_processes")
    assert (status, out) == (0, "8\n")
    status, out, _ = sif(capsys, "resolve", recipe, "--key", "num_windows", "--key", "vllm_mode")
    assert (status, out) == (0, "10\ncolocate\n")
    status, _, errors = sif(capsys, "resolve", recipe, "--key", "num_window")
    assert status == 2 and "did you mean 'num_windows'?" in errors


@pytest.mark.parametrize("name", [n for n in recipe_names() if n.startswith(("train/", "adapt/", "evaluate/"))])
def test_every_recipe_resolves(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, errors = sif(capsys, "resolve", name, "--key", "model")
    assert status == 0 and out.strip(), errors
