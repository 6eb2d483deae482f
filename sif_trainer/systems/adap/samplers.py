"""Samplers: draws from a policy, or from a recorded pool.

    PolicySampler(load_policy("embedded:cipher"), Sampling(max_tokens=48, certainty=True), batch_size=64)
    RecordedParts(read_pool("pool.npz"))        # sampler, scorer and verifier in one

A policy's sample depends on the prompt, its number and the seed: a search that goes on draws what it would have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from sif_trainer.policy import Policy, Sampling
from sif_trainer.systems.adap.parts import Candidate, Problem, Verdict
from sif_trainer.systems.adap.pools import Recorded


class PolicySampler:
    """Draws from a policy, `batch_size` at a time, so that no call grows with a round and a kill loses one batch.

    Args:
        answer: reads a text's final answer, for sharing verdicts; None where there is none.
    """

    def __init__(
        self,
        policy: Policy,
        sampling: Sampling,
        batch_size: int = 64,
        answer: Callable[[Problem, str], str | None] = lambda problem, text: None,
    ) -> None:
        self.policy, self.sampling, self.batch_size, self._answer = policy, sampling, batch_size, answer
        self._turn = threading.Lock()  # an engine in this process works for one search at a time

    def draw(self, problem: Problem, num: int, first: int) -> Iterator[Candidate]:
        """Yield draws for ever."""
        end = first + num
        while first < end:
            # Batches begin at multiples of their size, so that draws keep their company when a search goes on.
            size = min(end, (first // self.batch_size + 1) * self.batch_size) - first
            with self._turn:
                started = time.perf_counter()
                drawn = sorted(self.policy.stream([problem.prompt], size, self.sampling, first=first))
                seconds = (time.perf_counter() - started) / size
            for _, number, sample in drawn:
                answer = self._answer(problem, sample.text)
                yield Candidate(sample.text, first + number, sample, answer, seconds)
            first += size


class RecordedParts:
    """All three parts of searches in a recorded pool, found by the problem's id."""

    relative = False

    def __init__(self, pool: Sequence[Recorded]) -> None:
        self._pool = {recorded.id: recorded for recorded in pool}

    def draw(self, problem: Problem, num: int, first: int) -> Iterator[Candidate]:
        """Yield the samples in their recorded order, and no more than there are."""
        for index in range(first, min(first + num, len(self._pool[problem.id].labels))):
            yield Candidate(f"sample {index}", index)

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> list[float]:
        """Return the recorded scores."""
        return [float(self._pool[problem.id].rewards[candidate.index]) for candidate in candidates]

    def verify(self, problem: Problem, candidate: Candidate, *, cancel: threading.Event | None = None) -> Verdict:
        """Return the recorded label."""
        return Verdict("pass" if self._pool[problem.id].labels[candidate.index] else "fail")
