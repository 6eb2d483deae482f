"""A scorer or a verifier from its name and options in a recipe.

make("scorer", SCORERS, "reward_model", {"model": "path/to/model"})
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sif_trainer.runs.errors import UserError, nearest

Part = TypeVar("Part")


def make(kind: str, makers: Mapping[str, Callable[..., Part]], name: str, options: Mapping[str, Any]) -> Part:
    """Call the maker of that name. Raises `UserError` for an unknown name, and for options that it does not take."""
    if name not in makers:
        raise UserError(f"there is no {kind} '{name}'{nearest(name, makers)}; there are {', '.join(makers)}")
    signature = inspect.signature(makers[name])
    try:
        signature.bind(**options)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "none"
        raise UserError(f"the {kind} '{name}' has other options: {error} (options: {takes})") from error
    return makers[name](**options)
