"""LoRA adapters from recipe keys: a new one, one that is trained further, 4-bit base weights, and merging at the end.

    sif train train/qwen2.5-math-1.5b_math_lora_24gb merge=true

Only the adapter is trained and saved; the reference policy is the same model with the adapter switched off (or, where
an adapter is trained further, as it was at the start), so that it costs no memory. The paper trains all weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sif_trainer.policy.checkpoint import is_adapter, load_trainable, locate, read_adapter
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.fresh_process import call_fresh


@dataclass(kw_only=True)
class AdapterSettings:
    """What is trained instead of all weights, if anything."""

    lora_r: int | None = field(
        default=None, metadata={"help": "Rank of a new LoRA adapter; all weights are trained if left out (paper)."}
    )
    lora_alpha: float | None = field(
        default=None, metadata={"help": "Scale of the adapter, alpha / r; 2 r if left out."}
    )
    lora_target_modules: list[str] | str = field(
        default="all-linear",
        metadata={"help": "Names of the layers that are adapted; all-linear: every linear layer but the head."},
    )
    adapter: str | None = field(
        default=None,
        metadata={
            "help": "Folder or hub id of a LoRA adapter of this model to train further, with the copies of whole "
            "layers that it may hold (modules_to_save)."
        },
    )
    load_in_4bit: bool = field(
        default=False,
        metadata={"help": "QLoRA: keep the base weights in 4 bits (NF4). Needs a GPU and the extra quantization."},
    )
    merge: bool = field(
        default=False,
        metadata={"help": "After training, write merged/: the whole model with the adapter added to its weights."},
    )

    @property
    def trains_adapter(self) -> bool:
        """Whether an adapter is trained, and not all weights."""
        return self.lora_r is not None or self.adapter is not None


def check_adapter(settings: AdapterSettings, model: str | None = None) -> None:
    """Refuse settings that contradict one another, an adapter that cannot be read, and a `model` that is an adapter.

    Raises:
        UserError: naming the settings and what to do.
    """
    if model is not None and is_adapter(locate(model)):
        base = read_adapter(model).base_model_name_or_path or "ITS BASE"
        raise UserError(f"model={model} is an adapter; to train it further, set adapter={model} model={base}")
    if settings.lora_r is not None and settings.adapter is not None:
        raise UserError("lora_r makes a new adapter and adapter trains one further; leave one of them out")
    if settings.lora_r is not None and settings.lora_r < 1:
        raise UserError(f"lora_r={settings.lora_r} must be at least 1; leave it out to train all weights")
    for name in ("load_in_4bit", "merge"):
        if getattr(settings, name) and not settings.trains_adapter:
            raise UserError(f"{name}=true needs an adapter: set lora_r=16, say, or adapter=FOLDER")
    if settings.adapter is not None:
        kind = getattr(read_adapter(settings.adapter).peft_type, "value", None)
        if kind != "LORA":
            raise UserError(f"adapter={settings.adapter} is of kind {kind}; only LoRA adapters are trained further")


def lora_config(settings: AdapterSettings) -> Any:
    """Return PEFT's configuration of the new adapter, or None when there is none to make."""
    if settings.lora_r is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha or 2 * settings.lora_r,
        target_modules=settings.lora_target_modules,
        lora_dropout=0.0,  # dropout would make the certainty of a response random
        task_type="CAUSAL_LM",
    )


def continued(model: Any, settings: AdapterSettings, **options: Any) -> Any:
    """Return the model with the adapter that is trained further on it, or the model itself; `options` are PEFT's.

    Raises:
        UserError: an adapter that does not fit the model.
    """
    if settings.adapter is None:
        return model
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, settings.adapter, is_trainable=True, **options)
    except KeyError as error:
        raise UserError(f"adapter={settings.adapter}: its weights lack {error}, which its settings name") from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split("\n\t")[:2])  # of torch's list of what does not fit, the first
        raise UserError(f"adapter={settings.adapter}: cannot be loaded on this model: {reason}") from error


def with_adapter(model: Any, settings: AdapterSettings) -> Any:
    """Return the model with the adapter that would be trained on it, in the model's own type; for forecasts.

    Raises:
        UserError: an adapter that does not fit the model.
    """
    from peft import get_peft_model

    if settings.lora_r is None:
        return continued(model, settings, autocast_adapter_dtype=False)
    try:
        return get_peft_model(model, lora_config(settings), autocast_adapter_dtype=False)
    except ValueError as error:
        raise UserError(f"lora_target_modules={settings.lora_target_modules}: {error}") from error


def merge_trained(recipe: Any, folder: RunFolder) -> None:
    """Write the run's `merged/` where the recipe asks for it: the whole model with the adapter in it, and a tokenizer.

    The base is read anew and without quantisation, in a process that knows nothing of how training sharded it.
    """
    if recipe.merge and folder.writer:
        last, merged = folder.path / "last", folder.path / "merged"
        call_fresh(_merge, recipe.model, recipe.dtype, last, merged, preload=[__name__])


def _merge(model: str, dtype: str, adapter: Path, target: Path) -> None:
    from peft import PeftModel

    base, tokenizer = load_trainable(model, dtype)
    PeftModel.from_pretrained(base, str(adapter)).merge_and_unload().save_pretrained(str(target))
    tokenizer.save_pretrained(str(target))
