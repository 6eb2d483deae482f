"""Which responses of a group give the same final answer: for rules that vote by answer.

Each process finds the answers in its own texts; what is gathered are the answers, in rows of a fixed size, never the
texts. The main process alone compares them, because two processes could see a time limit differently, and tells the
others the classes. An error of the reader on one process is told to all, so that none waits for one that has ended.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from accelerate.utils import broadcast_object_list
from torch import Tensor

from sif_trainer.runs.errors import UserError

WIDTH = 256  # bytes of a gathered answer; a longer one is only equal to itself
_NONE, _TEXT, _FAILED = 0, 1, 2


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

    Raises:
        UserError: on every process, when the reader raised on one.
    """
    sets = [part for part in (texts, others) if part]
    answers = [_gather([_tried(reader.extract, text) for text in part], accelerator) for part in sets]
    _stop_if_failed(answer for part in answers for answer in part)
    num_rows = len(answers[0])
    found = None
    if accelerator.is_main_process:
        groups = [
            [answer for part in answers for answer in part[start : start + group_size]]
            for start in range(0, num_rows, group_size)
        ]
        found = _tried(reader.classes, groups)
    (found,) = broadcast_object_list([found])
    _stop_if_failed([found])
    rows = [[-1 if c is None else c for c in row] for row in found]
    classes = torch.tensor(rows, device=accelerator.device).view(-1, len(sets), group_size).transpose(0, 1)
    return list(classes.reshape(len(sets), num_rows))


@dataclass(frozen=True)
class _Failure:
    """What the reader raised, as text, because not every exception can be sent to another process."""

    text: str


def _tried(work: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return work(argument)
    except UserError as error:
        return _Failure(str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _Failure(f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})")


def _stop_if_failed(results: Iterable[Any]) -> None:
    for result in results:
        if isinstance(result, _Failure):
            raise UserError(f"answers could not be found and compared: {result.text}")


def _gather(answers: Sequence[str | _Failure | None], accelerator: Any) -> list[str | _Failure | None]:
    rows = torch.tensor([_encode(answer) for answer in answers], dtype=torch.uint8, device=accelerator.device)
    return [_decode(row) for row in accelerator.gather(rows).tolist()]


def _encode(answer: str | _Failure | None) -> list[int]:
    """A row of `WIDTH` bytes: a mark, the length in bytes, the text; or the digest of one that is too long."""
    if answer is None:
        return [_NONE] * WIDTH
    if isinstance(answer, _Failure):
        return _row(_FAILED, answer.text.encode("utf-8", "replace")[: WIDTH - 2])
    text = answer.encode("utf-8", "surrogatepass")
    if len(text) > WIDTH - 2:
        text = f"sha256 {hashlib.sha256(text).hexdigest()}".encode()
    return _row(_TEXT, text)


def _row(mark: int, text: bytes) -> list[int]:
    return [mark, len(text), *text] + [0] * (WIDTH - 2 - len(text))


def _decode(row: list[int]) -> str | _Failure | None:
    text = bytes(row[2 : 2 + row[1]])
    if row[0] == _FAILED:
        return _Failure(text.decode("utf-8", "ignore"))
    return text.decode("utf-8", "surrogatepass") if row[0] == _TEXT else None
