"""What a run reads besides its settings, known by content: an edited file must never bring back an earlier summary.

RunFolder.open(path, "balar run", config, inputs={"data": "icraft.jsonl", "problems": None})
fingerprint(b"...")
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from sif_trainer.runs.errors import UserError

Source: TypeAlias = str | Path | bytes
"""A file, or what was read from one."""


def fingerprint(source: Source) -> str:
    """Return a short name of a file's content as it is now, or of bytes.

    Raises:
        UserError: a file that does not exist or cannot be read.
    """
    content = source if isinstance(source, bytes) else _read(Path(source))
    return hashlib.sha256(content).hexdigest()[:16]


def fingerprints(inputs: Mapping[str, Source | None]) -> dict[str, str]:
    """Return the fingerprint of each source there is; standard input (`-`), which can be read but once, has none."""
    return {name: fingerprint(source) for name, source in inputs.items() if source not in (None, "-")}


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise UserError(f"no such file: {file}") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error}") from error
