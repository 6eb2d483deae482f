"""Selective Internal Feedback: reinforcement learning of language models without an answer key.

    from sif_trainer import SIFConfig, SIFTrainer

The two classes are imported when they are first asked for, so that `import sif_trainer` needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sif_trainer.trainer.config import SIFConfig
    from sif_trainer.trainer.trainer import SIFTrainer

__version__ = "0.1.0"
__all__ = ["SIFConfig", "SIFTrainer", "__version__"]

_HOMES = {"SIFConfig": "sif_trainer.trainer.config", "SIFTrainer": "sif_trainer.trainer.trainer"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
