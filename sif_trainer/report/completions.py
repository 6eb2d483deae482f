"""Completions by prompt, as the page and the terminal show them: read group by group from a run's records.

    groups = index([run.path / "samples.jsonl"], head, make)     # as the kinds of run do
    len(groups), groups[0].where, groups[0].members[0].badge

Only an index of the records is held; a group is read when it is asked for. Texts are the policy's and the users' own,
so that what could steer a page or a terminal is made visible: control characters, marks of direction, half a pair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError

MOST_CHARACTERS = 20_000  # of a prompt or a completion; the rest stays in the run folder
_SHOWN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "␡"}
_SHOWN |= {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
_DIRECTED = "200b 200e-200f 2028-202e 2060-206f d800-dfff 61c"
_SHOWN |= {
    code: f"\\u{code:04x}"
    for first, _, last in (span.partition("-") for span in _DIRECTED.split())
    for code in range(int(first, 16), int(last or first, 16) + 1)
}
JSON_TEXT = rb'"((?:[^"\\]|\\.)*)"'  # in the pattern of a record's head
BY_ID = re.compile(rb'\{"id": ' + JSON_TEXT)


@dataclass(frozen=True)
class Member:
    """One completion of a group."""

    text: str
    badge: str
    """What became of it, in a word: winner, kept, not kept, correct."""
    facts: Mapping[str, str]
    num_cut: int = 0
    """Characters of the completion that are left out."""
    tokens: Sequence[str] = ()
    certainty: Sequence[float] = ()
    """Nats, one per token; both empty where the run kept none."""
    profile: Sequence[float] | None = None
    windows_won: Sequence[int] | None = None
    """Against each member of the group."""


@dataclass(frozen=True)
class Group:
    """All completions of one prompt that were drawn together."""

    where: str
    id: str
    prompt: str
    members: Sequence[Member]
    tags: Sequence[str] = ()
    """What a reader may look for."""
    window_wins: int | None = None
    """Windows that make a win over a peer."""


@dataclass
class Groups:
    """The groups of a run, in the order of their first record; `groups[k]` reads one."""

    make: Callable[[list[dict[str, Any]]], Group]
    places: list[list[tuple[Path, int]]] = field(default_factory=list)
    """For each group, file and offset of its records."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of each group's records, long ones as what is shown of them."""

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Group:
        records = []
        for path, offset in self.places[index]:
            with path.open("rb") as file:
                file.seek(offset)
                records.append(json.loads(file.readline()))
        return self.make(records)


def index(paths: Iterable[Path], head: re.Pattern[bytes], make: Callable[[list[dict[str, Any]]], Group]) -> Groups:
    """Note where the records of every group stand.

    Args:
        paths: files of records; those that do not exist are empty.
        head: matches the start of a record up to its key, whose parts are the pattern's groups. Records are long and
            most are never shown, so that no more of them is read. A quoted name with its colon stands in no JSON text.
        make: from the records of a group, in their order, to the group.

    Raises:
        UserError: for a line that the pattern does not match.
    """
    groups, numbers = Groups(make), dict[tuple[bytes, ...], int]()
    for path in filter(Path.exists, paths):
        offset = 0
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # else it is still being written
                    key = head.match(line)
                    if key is None:
                        raise UserError(f"{path}, byte {offset}: no record of a completion: {line[:60]!r}")
                    number = numbers.setdefault(key.groups(), len(numbers))
                    if number == len(groups):
                        groups.places.append([])
                        groups.sizes.append(0)
                    groups.places[number].append((path, offset))
                    groups.sizes[number] += min(len(line), 8 * MOST_CHARACTERS)
                offset += len(line)
    return groups


def spread(groups: Groups, budget: int) -> list[int]:
    """Return groups that together have at most `budget` bytes: all, or first, last and an even choice between them."""
    if sum(groups.sizes) <= budget:
        return list(range(len(groups)))
    ends = [0, len(groups) - 1]
    # Multiples of the golden ratio fill an interval evenly, whatever number of them is taken.
    order = ends + sorted(range(1, len(groups) - 1), key=lambda k: k * 0.6180339887498949 % 1)
    chosen, used = [], 0
    for index in order:
        if used + groups.sizes[index] <= budget:
            chosen.append(index)
            used += groups.sizes[index]
    return sorted(chosen)


def visible(text: str) -> str:
    """Return the text with what is not meant to be read, but obeyed, spelled out."""
    return text.translate(_SHOWN)


def member(
    text: str,
    badge: str,
    facts: Mapping[str, str],
    tokens: Sequence[str] = (),
    certainty: Sequence[Any] = (),
    profile: Sequence[float | None] | None = None,
    windows_won: Sequence[int] | None = None,
) -> Member:
    """Return a completion as it is shown.

    Its tokens are kept only where they are its text, its profile only where it is long enough to have one.
    """
    vote: dict[str, Any] = {"windows_won": windows_won}
    if profile is not None and None not in profile:
        vote["profile"] = profile
    shown, num_cut = visible(text[:MOST_CHARACTERS]), max(len(text) - MOST_CHARACTERS, 0)
    # Nothing is shaded where a tokenizer's pieces are not the text, or the model had lost its numbers.
    if not tokens or "".join(tokens) != text or None in certainty:
        return Member(shown, badge, facts, num_cut, **vote)
    pieces, room = [], MOST_CHARACTERS
    for token in tokens:
        if room <= 0:
            break
        pieces.append(visible(token[:room]))
        room -= len(token)
    return Member(shown, badge, facts, num_cut, pieces, certainty[: len(pieces)], **vote)


def prompt_text(prompt: Any) -> str:
    """Return a prompt as it is shown; of a chat, each message under its role."""
    if not isinstance(prompt, str):
        prompt = "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in prompt)
    num_cut = max(len(prompt) - MOST_CHARACTERS, 0)
    return visible(prompt[:MOST_CHARACTERS]) + (f"\n… {num_cut:,} more characters" if num_cut else "")
