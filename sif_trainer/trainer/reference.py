"""A reference policy for models that came from no checkpoint folder.

TRL builds the KL term's reference by loading `model.config._name_or_path` once more. A model made in memory, or read
from a GGUF file, has nothing there that could be loaded; its reference is a copy of itself. Goes away when TRL
accepts a reference model as an argument.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from trl.trainer import grpo_trainer


@contextmanager
def loadable_reference(model: Any) -> Iterator[None]:
    """While open, TRL gets a copy of `model` where it would load one from nowhere."""
    if isinstance(model, str) or _can_be_loaded(model.config._name_or_path):
        yield
        return
    with patch.object(grpo_trainer, "create_model_from_path", lambda *args, **kwargs: copy.deepcopy(model)):
        yield


def _can_be_loaded(name: str) -> bool:
    """A hub id, or a folder with a config; not a folder that holds a GGUF file alone."""
    return bool(name) and (not Path(name).is_dir() or (Path(name) / "config.json").exists())
