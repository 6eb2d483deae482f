"""Every documented check of `sif check`: silent on a recipe that is fine, and heard on one that is not."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig

from sif_trainer.runs.errors import UserError
from sif_trainer.trainer import check_machine
from sif_trainer.trainer.check import CHECKS, Subject, check_training
from sif_trainer.trainer.check_subject import look_at
from sif_trainer.trainer.cost import DEVICES, device_called
from sif_trainer.trainer.launched import Launch, read_launch
from sif_trainer.trainer.memory import MemoryForecast, forecast_memory
from sif_trainer.trainer.worst_case import train_worst_step

ROOT = Path(__file__).parents[2]
GIB = 2**30


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("check")
    tiny.model().save_pretrained(folder / "policy")
    tiny.tokenizer().save_pretrained(folder / "policy")
    rows = [json.dumps({"problem": f"say {i} " + "x" * (i % 9), "answer": "1"}) + "\n" for i in range(24)]
    (folder / "prompts.jsonl").write_text("".join(rows))
    return {
        "model": str(folder / "policy"),
        "prompts": str(folder / "prompts.jsonl"),
        **tiny.VOTE,
        "max_prompt_length": 32,
        "save_steps": 2,
    }


@pytest.fixture
def look(values: dict[str, Any], tmp_path: Path) -> Callable[..., Subject]:
    def at(launch: Launch | None = None, device: str | None = None, **changed: Any) -> Subject:
        return look_at({**values, **changed}, launch or Launch(), tmp_path, device)

    return at


def heard(subject: Subject, level: str = "warning") -> str:
    """What was said at this level, in one text."""
    return "\n".join(finding.text for finding in check_training(subject) if finding.level == level)


def test_a_recipe_that_is_fine(look: Callable[..., Subject]) -> None:
    subject = look()
    findings = list(check_training(subject))
    assert {finding.level for finding in findings} == {"note"}, findings
    told = "\n".join(finding.text for finding in findings)
    assert "4 prompts x 4 responses = 16 completions per step" in told
    assert "24 prompts = 6 steps per epoch, the last 0 of each shuffle are skipped" in told
    lengths = sorted(len(subject.tokenizer(f"say {i} " + "x" * (i % 9))["input_ids"]) for i in range(24))
    median = (lengths[11] + lengths[12]) / 2
    assert f"least {lengths[0]}, median {median:g}, 95 % {lengths[22]}, most {lengths[23]}; limit 32" in told
    assert "'say 0 '" in told and "a response ends with '<eos>' (1)" in told
    assert "responses of 4 to 12 tokens vote" in told


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"window_size": 50}, "no response could ever be eligible"),
        ({"per_device_train_batch_size": 5}, "nearest valid"),
        ({"loss_type": "bnpo"}, "loss_type='bnpo' does not work"),
        ({"feedback": "siff"}, "siff"),
        ({"max_prompt_length": 2}, "all 24 prompts have more than"),
        ({"prompts": "gone.jsonl"}, "no such file"),
        ({"model": "gone/model"}, "model=gone/model: cannot be read"),
        ({"lora_r": 4, "adapter": "x"}, "leave one of them out"),
        ({"merge": True}, "merge=true needs an adapter"),
        ({"adapter": "/nope/adapter"}, "adapter /nope/adapter: cannot be read"),
        ({"model": "/nope"}, "there is no folder '/nope'"),
        ({"chat_template_kwargs": "3"}, "chat_template_kwargs='3' must be a mapping"),
        ({"num_train_epochs": 0.0}, "num_train_epochs=0.0 trains nothing"),
        ({"report_to": "nope"}, "report_to: nope is not supported"),
    ],
)
def test_what_contradicts_itself_is_refused(look: Callable[..., Subject], changed: dict, complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        look(**changed)


def test_batch(look: Callable[..., Subject]) -> None:
    assert "no epoch has a step" in heard(look(num_prompts=3), "problem")
    assert "prompts are seen again" in heard(look(max_steps=50))
    assert "1 steps, 0.167 epochs" in heard(look(num_train_epochs=0.1), "note")  # rounded up, as the trainer does
    assert heard(look(num_train_epochs=0.0, max_steps=2), "note")
    assert "save_steps=100 is past the end (6)" in heard(look(save_steps=100))
    with pytest.raises(UserError, match="can't be shared equally by 3 processes; nearest valid prompts_per_step: 3"):
        look(Launch(num_processes=3, strategy="ddp"))
    assert "2 processes x 1 accumulation steps x 8" in heard(look(Launch(num_processes=2, strategy="ddp")), "note")


def test_prompts(look: Callable[..., Subject]) -> None:
    assert "21% of the prompts are left out; max_prompt_length=12 would keep 95 %" in heard(look(max_prompt_length=10))


def test_rendered(look: Callable[..., Subject], values: dict[str, Any], tmp_path: Path) -> None:
    assert "no token ends a response" in heard(dataclasses.replace(look(), end_ids=()), "problem")
    folder = tmp_path / "chatty"  # its template ends a turn with a token that does not end a response
    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<end>"]})
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<end>{% endfor %}"
    policy = tiny.model()
    policy.resize_token_embeddings(len(tokenizer))
    policy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert "ends a turn with '<end>'" in heard(look(model=str(folder)))
    GenerationConfig(eos_token_id=[1, tokenizer.convert_tokens_to_ids("<end>")]).save_pretrained(folder)
    assert "ends a turn" not in heard(look(model=str(folder)))


def test_windows(look: Callable[..., Subject]) -> None:
    assert "more than half of max_completion_length=12" in heard(look(window_size=8))


def test_context(look: Callable[..., Subject]) -> None:
    assert "tokens, the model 128 positions" in heard(look(max_completion_length=200), "problem")
    short = look(device="H100", use_vllm=True, vllm_max_model_length=20)
    assert "vllm_max_model_length=20; raise it" in heard(short, "problem")


def test_precision(look: Callable[..., Subject]) -> None:
    rounded = look(dtype="bfloat16", device="H100")
    assert "weights in bfloat16 and learning_rate=3e-06" in heard(rounded)
    zero = dataclasses.replace(rounded, launch=read_launch(ROOT / "launch/accelerate/zero2.yaml"))
    assert "weights in" not in heard(zero)
    assert "weights in" not in heard(look(dtype="float32", device="H100"))


def test_weights_are_float32_unless_a_recipe_says_otherwise(look: Callable[..., Subject], tmp_path: Path) -> None:
    folder = tmp_path / "half"
    tiny.model().bfloat16().save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    usual, own = (look(model=str(folder), device="H100", **given) for given in ({}, {"dtype": "auto"}))
    assert "weights in" not in heard(usual) and "weights in bfloat16" in heard(own)
    assert forecast_of(usual).weights == 2 * forecast_of(own).weights
    assert usual.config.bf16  # on a GPU, computation is in bf16 all the same


def test_sharding(look: Callable[..., Subject]) -> None:
    zero3 = Launch(num_processes=2, strategy="zero3")
    assert "use_vllm=true, or ZeRO-2" in heard(look(zero3))
    assert "waits for ever" in heard(look(zero3, ds3_gather_for_generation=False), "problem")
    colocated = look(device="H100", use_vllm=True, vllm_mode="colocate", lora_r=4)
    assert "prefer vllm_mode=server" in heard(colocated)
    quantized = look(lora_r=4)
    quantized.recipe.load_in_4bit = True
    assert "cannot be sharded by zero3" in heard(dataclasses.replace(quantized, launch=zero3), "problem")
    assert "leaves out the optimizer" in heard(look(Launch(2, strategy="ddp"), save_only_model=True))


def test_engine(look: Callable[..., Subject]) -> None:
    assert "set use_vllm=true" in heard(look(device="H100", max_completion_length=1000))
    engine = {"device": "H100", "use_vllm": True, "certainty_source": "engine"}
    assert "spares no pass" in heard(look(**engine))
    assert "spares no pass" not in heard(look(**engine, vllm_importance_sampling_correction=False))
    assert "pad_to_multiple_of=128" in heard(look(torch_compile=True))


def test_trackers(look: Callable[..., Subject]) -> None:
    assert "metrics go to tensorboard" in heard(look(report_to=["tensorboard"]), "note")


# --- the machine ---------------------------------------------------------------------------------------------------


def forecast(**changed: int) -> MemoryForecast:
    fields = {field.name: 0 for field in dataclasses.fields(MemoryForecast)}
    return MemoryForecast(**{**fields, "num_parameters": 10**9, "num_trained": 10**9, **changed})


def texts(findings: Any, level: str) -> str:
    return "\n".join(finding.text for finding in findings if finding.level == level)


def test_versions() -> None:
    tested = check_machine.requirements()
    assert any(line.startswith("trl") and extra is None for line, extra in tested)
    assert any(line.startswith("vllm") and extra == "vllm" for line, extra in tested)
    (fine,) = check_machine.versions([("torch>=2.0", None), ("no-such-package>=1", "extra")])
    assert fine.text == "installed packages are within the tested ranges"
    assert "torch>=99" in texts(check_machine.versions([("torch>=99", None)]), "problem")
    assert "torch>=99" in texts(check_machine.versions([("torch>=99", "vllm")]), "warning")
    assert "is needed and not installed" in texts(check_machine.versions([("no-such-package>=1", None)]), "problem")


def test_disk(look: Callable[..., Subject], tmp_path: Path) -> None:
    config = look().config
    small = forecast(num_parameters=10, num_trained=10)
    assert texts(check_machine.disk(tmp_path / "new" / "run", small, config), "note")
    huge = forecast(num_parameters=10**15, num_trained=10**15)
    assert "checkpoints may take" in texts(check_machine.disk(tmp_path, huge, config), "problem")


def test_ports(look: Callable[..., Subject]) -> None:
    subject = look(device="H100", use_vllm=True, vllm_mode="server", vllm_server_host="127.0.0.1")
    two = Launch(num_processes=2, num_machines=2, strategy="ddp")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        subject.config.vllm_server_port = port
        findings = list(check_machine.ports(subject.config, two, {"MAIN_PORT": str(port)}))
        assert f"port {port}, at which the machines meet, is taken" in texts(findings, "problem")
        assert "something answers" in texts(findings, "note")
        named = dataclasses.replace(two, port=port)
        assert "is taken" in texts(check_machine.ports(subject.config, named, {}), "problem")
        alone = dataclasses.replace(named, num_machines=1)  # accelerate takes another port
        assert not texts(check_machine.ports(subject.config, alone, {}), "problem")
    assert "no vLLM server answers" in texts(check_machine.ports(subject.config, Launch()), "warning")
    subject.config.vllm_server_host = "no.such.host.invalid"
    assert "no vLLM server answers" in texts(check_machine.ports(subject.config, Launch()), "warning")


def test_a_device_by_its_drivers_name() -> None:
    assert device_called("NVIDIA A100-SXM4-80GB") == DEVICES["A100"] and device_called("NVIDIA L4") == DEVICES["L4"]
    assert device_called("NVIDIA L40") is None


def test_gpus_and_memory() -> None:
    two, four = Launch(num_processes=2, strategy="ddp"), Launch(num_processes=4, strategy="ddp")
    assert "asks for 4 processes on this machine, which has 2" in texts(
        check_machine.gpus(four, forecast(weights=1), ["A", "A"], 80 * GIB), "problem"
    )
    assert not texts(check_machine.gpus(two, forecast(weights=GIB), ["A", "A"], 80 * GIB), "problem")
    assert "will not fit" in texts(check_machine.gpus(two, forecast(weights=81 * GIB), ["A"] * 2, 80 * GIB), "problem")
    assert "is close to" in texts(check_machine.gpus(two, forecast(weights=79 * GIB), ["A"] * 2, 80 * GIB), "warning")
    assert "offloading takes" in texts(check_machine.gpus(two, forecast(host=2**50), ["A"] * 2, 80 * GIB), "problem")


def test_launch_files(tmp_path: Path) -> None:
    files = {path.stem: read_launch(path) for path in (ROOT / "launch" / "accelerate").glob("*.yaml")}
    assert {name: launch.strategy for name, launch in files.items()} == {
        "one_gpu": "none",
        "ddp": "ddp",
        "cpu_gloo": "ddp",
        "zero2": "zero2",
        "zero2_offload": "zero2",
        "zero3": "zero3",
        "zero3_offload": "zero3",
        "fsdp2": "fsdp2",
    }
    assert [name for name, launch in sorted(files.items()) if launch.offload] == ["zero2_offload", "zero3_offload"]
    (tmp_path / "odd.yaml").write_text("distributed_type: MEGATRON_LM\n")
    with pytest.raises(UserError, match="MEGATRON_LM"):
        read_launch(tmp_path / "odd.yaml")
    with pytest.raises(UserError, match="cannot be read"):
        read_launch(tmp_path / "gone.yaml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("num_processes: abc", "num_processes is 'abc'"),
        ("num_processes: 0", "num_processes is 0"),
        ("num_machines: true", "num_machines is True"),
        ("main_process_port: x", "main_process_port is 'x'"),
        ("deepspeed_config: foo", "deepspeed_config is 'foo'"),
        ("distributed_type: FSDP", "FSDP1"),
        ("{distributed_type: FSDP, fsdp_config: {fsdp_version: 1}}", "FSDP1"),
    ],
)
def test_a_launch_file_that_cannot_be_meant(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "odd.yaml").write_text(text + "\n")
    with pytest.raises(UserError, match=complaint):
        read_launch(tmp_path / "odd.yaml")


# --- the forecast ---------------------------------------------------------------------------------------------------


def forecast_of(subject: Subject) -> MemoryForecast:
    return forecast_memory(
        subject.model_config, subject.recipe, subject.config, subject.batch, subject.launch, 32, subject.on_cpu
    )


def test_what_each_strategy_divides(look: Callable[..., Subject]) -> None:
    one = forecast_of(look(dtype="float32", device="H100", prompts_per_step=4))
    assert one.weights == one.reference == one.gradients == 4 * one.num_parameters and one.optimizer == 2 * one.weights
    two = {
        strategy: forecast_of(look(Launch(2, strategy=strategy), dtype="float32", device="H100"))
        for strategy in ("ddp", "zero2", "zero3", "fsdp2")
    }
    assert two["ddp"].static == one.static
    assert two["zero2"].weights == one.weights and two["zero2"].optimizer == one.optimizer // 2
    for name in ("zero3", "fsdp2"):
        assert two[name].weights == one.weights // 2 and two[name].reference == one.weights // 2
    offloaded = forecast_of(look(Launch(2, strategy="zero3", offload=True), dtype="float32", device="H100"))
    assert offloaded.static == 0 and offloaded.host == two["zero3"].static


def test_an_adapter_needs_no_reference_and_little_optimizer(look: Callable[..., Subject]) -> None:
    whole, lora = forecast_of(look()), forecast_of(look(lora_r=2))
    assert lora.reference == 0 and lora.optimizer < whole.optimizer / 2
    assert forecast_of(look(beta=0.0)).reference == 0


def test_an_adapter_that_is_trained_further(look: Callable[..., Subject], tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    get_peft_model(tiny.model(), LoraConfig(r=3, target_modules=["q_proj"])).save_pretrained(folder)
    assert forecast_of(look(adapter=str(folder))).num_trained == 2 * 3 * (16 + 16)  # layers x rank x (in + out)
    with pytest.raises(UserError, match=r"is an adapter; to train it further, set adapter=\S+ model=ITS BASE"):
        look(model=str(folder))


def test_checkpointing_and_shorter_texts_take_less(look: Callable[..., Subject]) -> None:
    long = forecast_of(look(max_completion_length=90))
    assert forecast_of(look(max_completion_length=90, gradient_checkpointing=True)).activations < long.activations
    assert forecast_of(look()).activations < long.activations
    assert forecast_of(look()).kv_cache < long.kv_cache


def test_the_worst_step_is_trained_without_an_engine(look: Callable[..., Subject], values: dict[str, Any]) -> None:
    subject = look(lora_r=2)
    asked = {**values, "use_vllm": True, "certainty_source": "engine", "vllm_mode": "colocate"}
    assert train_worst_step(asked, subject).length == subject.prompts.max_length + 12


def test_every_check_is_documented() -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    for name in [*CHECKS, "versions", "disk", "ports", "gpus", "memory", "time", "worst case"]:
        assert f"| `{name}` |" in page, name
