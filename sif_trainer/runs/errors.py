"""The one way to fail: a message that says what was wrong, where, and how to mend it.

Rooms raise `UserError`; the command line prints it as one line and exits with status 2, without a traceback.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class UserError(Exception):
    """Something the user typed, gave or can mend. The message is complete: what, where, what to do."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the valid name closest to `name`, or `""` when none is close."""
    matches = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def require(package: str, extra: str) -> ModuleType:
    """Import an optional package, or raise a `UserError` that names the extra which installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"this needs the package '{package}', which could not be imported ({error}); "
            f"install it with: pip install 'sif-trainer[{extra}]'"
        ) from error
