"""Which responses of a group give the same final answer: for rules that vote by answer.

Each process finds the answers in its own texts; what is gathered are the answers, in rows of a fixed size, never the
texts. The main process alone compares them, because two processes could see a time limit differently, and tells the
others the classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from accelerate.utils import broadcast
from torch import Tensor

WIDTH = 256  # bytes of a gathered answer; a longer one is only equal to itself
_NONE, _TEXT = 0, 1


class AnswerReader(Protocol):
    """Finds and compares final answers; `tasks.agreement.AnswerReader("math")` is one. It never sees a reference."""

    def extract(self, text: str) -> str | None:
        """The final answer of a response, or None."""

    def classes(self, groups: Sequence[Sequence[str | None]]) -> list[list[int | None]]:
        """A class for every answer of every group; equal classes are equal answers, None stays None."""


def answer_classes(
    texts: Sequence[str], reader: AnswerReader, group_size: int, accelerator: Any, others: Sequence[str] = ()
) -> list[Tensor]:
    """Class every response of the batch by its answer.

    Args:
        texts: this process's responses; `group_size` of the gathered ones form a group.
        reader: finds and compares.
        group_size: responses whose answers are compared with one another.
        accelerator: of the trainer.
        others: a second set of responses to the same prompts (a teacher's), compared together with the first.

    Returns:
        (N,) int64 of the gathered responses, -1 without an answer; of `others`, if given, a second one.
    """
    device = accelerator.device
    sets = [part for part in (texts, others) if part]
    answers = [_gather([reader.extract(text) for text in part], accelerator) for part in sets]
    num_rows = len(answers[0])
    classes = torch.full((len(sets) * num_rows,), -1, dtype=torch.int64, device=device)
    if accelerator.is_main_process:
        groups = [
            [answer for part in answers for answer in part[start : start + group_size]]
            for start in range(0, num_rows, group_size)
        ]
        found = torch.tensor([[-1 if c is None else c for c in row] for row in reader.classes(groups)], device=device)
        classes = found.view(-1, len(sets), group_size).transpose(0, 1).flatten().contiguous()
    return list(broadcast(classes).view(len(sets), num_rows))


def _gather(answers: Sequence[str | None], accelerator: Any) -> list[str | None]:
    rows = torch.tensor([_encode(answer) for answer in answers], dtype=torch.uint8, device=accelerator.device)
    return [_decode(row) for row in accelerator.gather(rows).tolist()]


def _encode(answer: str | None) -> list[int]:
    """A row of `WIDTH` bytes: a mark, the length in bytes, the text; or the digest of one that is too long."""
    if answer is None:
        return [_NONE] * WIDTH
    text = answer.encode("utf-8", "surrogatepass")
    if len(text) > WIDTH - 2:
        text = f"sha256 {hashlib.sha256(text).hexdigest()}".encode()
    return [_TEXT, len(text), *text] + [0] * (WIDTH - 2 - len(text))


def _decode(row: list[int]) -> str | None:
    return bytes(row[2 : 2 + row[1]]).decode("utf-8", "surrogatepass") if row[0] == _TEXT else None
