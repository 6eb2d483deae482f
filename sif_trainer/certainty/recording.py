"""Scores of tokens from inside an engine, as it generates, kept until the completions are known.

    recording = Recording()
    recording.update(removed=(), added=[(0, prompt_ids, output_ids, 1.0)], moved=())   # when the batch has changed
    recording.record(certainty, entropy)                                               # each step, a row per request
    certainty, entropy = recording.scores(prompt_ids, completion_ids)

    pytest tests/certainty/test_recording.py

The scores of a token are those of the distribution that it was drawn from, which depends on the prompt and on the
tokens before it alone. So they are kept by that place and not by request: an engine may move, preempt and recompute
requests, read a prompt in pieces (the last row for a place replaces those before) and draw a token too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

PLACEHOLDER = -1
"""What an engine writes for a token that it has drawn and not yet read back."""


@dataclass(eq=False)
class _Request:
    prompt: tuple[int, ...]
    output: list[int]  # the engine's own list, which grows
    temperature: float
    scores: dict[int, list[float]] = field(default_factory=dict)  # by the number of tokens before

    @property
    def known(self) -> list[int]:
        """Its tokens so far, up to one that has not been read back."""
        return self.output[: self.output.index(PLACEHOLDER)] if PLACEHOLDER in self.output else self.output


class Recording:
    """Follows a batch of requests from slot to slot and collects what is computed for each."""

    def __init__(self) -> None:
        self._slots: dict[int, _Request] = {}
        self._requests: dict[tuple[int, ...], list[_Request]] = {}
        self._columns: list[Tensor] = []  # (scores, rows) each; moved to the CPU together
        self._places: list[tuple[_Request, int]] = []  # of their rows, one after the other

    def update(
        self,
        removed: Iterable[int],
        added: Iterable[tuple[int, Sequence[int], list[int], float]],
        moved: Iterable[tuple[int, int, bool]],
    ) -> None:
        """Follow a change of the batch, in the order of the parameters.

        Args:
            removed: slots that became empty.
            added: slot, prompt, the list that the engine appends drawn tokens to, and temperature. One that was
                removed before its end comes back like this, with tokens in its list.
            moved: from slot, to slot, and whether the two swap; else whatever was in the latter is gone.
        """
        for slot in removed:
            self._slots.pop(slot, None)
        for slot, prompt, output, temperature in added:
            requests = self._requests.setdefault(tuple(prompt), [])
            request = next((known for known in requests if known.output is output), None)
            if request is None:
                request = _Request(tuple(prompt), output, temperature)
                requests.append(request)
            self._slots[slot] = request
        for start, end, swap in moved:
            first, second = self._slots.pop(start, None), self._slots.pop(end, None)
            if first is not None:
                self._slots[end] = first
            if swap and second is not None:
                self._slots[start] = second

    @property
    def temperatures(self) -> list[float]:
        """Sampling temperature of each slot. Raises ValueError when a slot below another is empty."""
        if sorted(self._slots) != list(range(len(self._slots))):
            raise ValueError(f"requests lie in the slots {sorted(self._slots)}, which leaves some empty")
        return [self._slots[slot].temperature for slot in range(len(self._slots))]

    def record(self, *scores: Tensor) -> None:
        """Keep scores of the distributions of one step, (number of requests,) each, in the order of the slots.

        Raises ValueError when there are not as many rows as requests.
        """
        columns = torch.stack(scores)
        if columns.size(1) != len(self._slots):
            raise ValueError(f"{columns.size(1)} rows of logits for {len(self._slots)} requests")
        self._columns.append(columns)
        self._places += [(request, len(request.output)) for _, request in sorted(self._slots.items())]

    def scores(self, prompt: Sequence[int], completion: Sequence[int]) -> Tensor:
        """Return the scores of a completion's tokens, (number of scores, T) fp32.

        Of two equal completions of one prompt either may get the other's, which are the same but for rounding.
        Raises ValueError when a token was not recorded.
        """
        self._flush()
        completion = list(completion)
        found: dict[int, list[float]] = {}
        for request in self._requests.get(tuple(prompt), []):
            shared = min(len(request.known), len(completion) - 1)
            if request.known[:shared] == completion[:shared]:
                # Of a piece of a prompt, from which nothing is drawn, there are scores too.
                drawn = min(shared + 1, len(request.output))
                found |= {place: scores for place, scores in request.scores.items() if place < drawn}
        missing = [place for place in range(len(completion)) if place not in found]
        if missing:
            raise ValueError(
                f"{len(missing)} of {len(completion)} tokens of a completion were not recorded, the first after "
                f"{missing[0]} tokens"
            )
        return torch.tensor([found[place] for place in range(len(completion))]).T

    def forget(self, prompt: Sequence[int], completion: Sequence[int]) -> None:
        """Forget a finished request, where the engine reads back what it draws at once and not a step later."""
        requests = self._requests.get(tuple(prompt), [])
        own = next((request for request in requests if request.output == list(completion)), None)
        if own is not None:
            requests.remove(own)

    def clear(self) -> None:
        """Forget all but the requests that are in the batch."""
        self._columns, self._places, self._requests = [], [], {}
        for request in self._slots.values():
            request.scores.clear()
            self._requests.setdefault(request.prompt, []).append(request)

    def _flush(self) -> None:
        if self._columns:
            rows = torch.cat(self._columns, dim=1).T.tolist()
            for (request, place), scores in zip(self._places, rows, strict=True):
                request.scores[place] = scores
            self._columns, self._places = [], []
