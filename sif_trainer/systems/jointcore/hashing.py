"""Where every draw of the benchmark comes from: SHA-256 of named parts, never a shared random stream.

A field's value depends on its own parts only, so no draw can disturb another and tasks may be built in any order.

    from sif_trainer.systems.jointcore.hashing import hash64, unit, generator
    unit("orders|x", "task")        # 0.9562…
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Iterable

MAX_HASH = 2**64 - 1
SEPARATOR = "\x1f"
EIGHT_OF_32 = struct.Struct(">Q24x")
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def hash64(*parts: object) -> int:
    """Return the parts as an unsigned 64-bit integer: SHA-256 of their strings joined by U+001F, first eight bytes."""
    return int.from_bytes(hashlib.sha256(SEPARATOR.join(map(str, parts)).encode()).digest()[:8], "big")


def unit(*parts: object) -> float:
    """Return the parts as a double in [0, 1]; 1 itself is possible, once in 2^64."""
    return hash64(*parts) / MAX_HASH


def units(key: str, name: str, ids: Iterable[int]) -> list[float]:
    """Return `unit(key, name, i)` for every id: the same numbers, with the common prefix encoded once."""
    sha256 = hashlib.sha256
    prefix = f"{key}{SEPARATOR}{name}{SEPARATOR}".encode()
    digests = b"".join([sha256(prefix + b"%d" % i).digest() for i in ids])
    return [first / MAX_HASH for (first,) in EIGHT_OF_32.iter_unpack(digests)]


def generator(*parts: object) -> random.Random:
    """Return a fresh Mersenne Twister seeded with the parts."""
    return random.Random(hash64(*parts))


def shuffled(n: int, *parts: object) -> list[int]:
    """Return 0..n-1 in the order that the parts decide."""
    order = list(range(n))
    generator(*parts).shuffle(order)
    return order


def canonical_digest(value: object) -> str:
    """Return the SHA-256 (hex) of a value's canonical JSON: sorted keys, no spaces, ASCII."""
    return hashlib.sha256(CANONICAL.encode(value).encode()).hexdigest()
