"""The bookkeeping of an engine's batch, driven by an engine that moves, preempts and overshoots at random."""

from __future__ import annotations

import random

import pytest
import torch

from sif_trainer.certainty.recording import PLACEHOLDER, Recording


def score(prompt: tuple[int, ...], output: list[int]) -> float:
    """What the fake engine computes at a place: a number of what comes before it, and of nothing else."""
    return float(hash((prompt, tuple(output))) % 10_007)


class Engine:
    """Keeps a batch as vLLM does and tells the recording of every change."""

    def __init__(self, seed: int, late: bool) -> None:
        self.random = random.Random(seed)
        self.late = late  # drawn tokens are read back one step later, and a finished request draws one token too many
        self.recording = Recording()
        self.slots: list[dict] = []
        self.num_steps = self.num_moves = self.num_resumed = 0

    def generate(self, jobs: list[tuple[tuple[int, ...], list[int]]], width: int) -> None:
        waiting = [
            {"prompt": prompt, "tokens": tokens, "output": [], "drawn": 0, "pieces": self.random.randrange(3)}
            for prompt, tokens in jobs
        ]
        while waiting or self.slots:
            self.change(waiting, width)
            self.step()

    def change(self, waiting: list[dict], width: int) -> None:
        over = [job["drawn"] >= len(job["tokens"]) + (1 if self.late else 0) for job in self.slots]
        preempted = [not done and self.random.random() < 0.1 for done in over]
        holes = [slot for slot in range(len(self.slots)) if over[slot] or preempted[slot]]
        kept = {slot: job for slot, job in enumerate(self.slots) if slot not in holes}
        for slot in holes:
            if preempted[slot]:
                waiting.insert(0, self.slots[slot])
        added, free = [], sorted(holes)
        while waiting and len(kept) < width:
            job = waiting.pop(0)
            self.num_resumed += bool(job["output"])
            if self.late:
                self.read_back(job)
                job["output"] = list(job["output"])  # vLLM makes a new list for one that comes back
            slot = free.pop(0) if free else len(kept)
            kept[slot] = job
            added.append((slot, job["prompt"], job["output"], 1.0))
        moved = []
        for hole in free:
            last = max(kept, default=-1)
            if last > hole:
                kept[hole] = kept.pop(last)
                moved.append((last, hole, False))
        self.slots = [kept[slot] for slot in sorted(kept)]
        if len(self.slots) > 1 and self.random.random() < 0.3:
            a, b = self.random.sample(range(len(self.slots)), 2)
            self.slots[a], self.slots[b] = self.slots[b], self.slots[a]
            moved.append((a, b, True))
        self.num_moves += len(moved)
        self.recording.update([slot for slot in holes if slot in free], added, moved)

    def step(self) -> None:
        if not self.slots:
            return
        self.num_steps += 1
        for job in self.slots:
            if self.late:
                self.read_back(job)
        seen = [score(job["prompt"], job["output"]) for job in self.slots]
        unfinished = [job["pieces"] > 0 for job in self.slots]  # a row of logits that nothing is drawn from
        seen = [-1.0 if wait else value for wait, value in zip(unfinished, seen, strict=True)]
        self.recording.record(torch.tensor(seen), -torch.tensor(seen))
        for job, wait in zip(self.slots, unfinished, strict=True):
            if wait:
                job["pieces"] -= 1
                continue
            token = job["tokens"][job["drawn"]] if job["drawn"] < len(job["tokens"]) else 99
            job["output"].append(PLACEHOLDER if self.late else token)
            job["last"], job["drawn"] = token, job["drawn"] + 1

    def read_back(self, job: dict) -> None:
        if job["output"] and job["output"][-1] == PLACEHOLDER:
            job["output"][-1] = job["last"]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_every_token_has_the_score_of_its_place(seed: int, late: bool) -> None:
    engine = Engine(seed, late)
    prompts = [tuple(engine.random.randrange(5) for _ in range(engine.random.randrange(1, 4))) for _ in range(3)]
    jobs = [
        (prompt, [engine.random.randrange(3) for _ in range(engine.random.randrange(1, 9))])
        for prompt in prompts
        for _ in range(6)
    ]
    jobs.append(jobs[0])  # the same completion twice
    for _ in range(2):  # the second time the batch begins with what the first left in it
        engine.generate(jobs, width=5)
        for prompt, tokens in engine.random.sample(jobs, len(jobs)):
            expected = [score(prompt, tokens[:place]) for place in range(len(tokens))]
            certainty, entropy = engine.recording.scores(prompt, tokens)
            assert certainty.tolist() == expected
            assert entropy.tolist() == [-value for value in expected]
        engine.recording.clear()
    assert engine.num_moves and engine.num_resumed


def test_what_was_not_recorded_is_refused() -> None:
    recording = Recording()
    output: list[int] = []
    recording.update((), [(0, [1, 2], output, 1.0)], ())
    recording.record(torch.tensor([0.5]))
    output.append(7)
    assert recording.scores([1, 2], [7]).tolist() == [[0.5]]
    for prompt, completion, message in (
        ([1, 2], [7, 8], "1 of 2 tokens .* after 1 tokens"),
        ([1], [7], "1 of 1 tokens .* after 0 tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            recording.scores(prompt, completion)


def test_what_is_forgotten() -> None:
    recording = Recording()
    first: list[int] = []
    second: list[int] = []
    recording.update((), [(0, [1], first, 1.0), (1, [2], second, 1.0)], ())
    recording.record(torch.tensor([0.5, 0.25]))
    first.append(7)
    second.append(8)
    recording.forget([1], [8])  # no such request
    assert recording.scores([1], [7]).tolist() == [[0.5]]
    recording.forget([1], [7])
    with pytest.raises(ValueError, match="not recorded"):
        recording.scores([1], [7])
    recording.clear()
    with pytest.raises(ValueError, match="not recorded"):
        recording.scores([2], [8])
    recording.record(torch.tensor([0.1, 0.2]))  # both are still in the batch, and the second has drawn a token
    second.append(9)
    with pytest.raises(ValueError, match="1 of 2 tokens"):
        recording.scores([2], [8, 9])


def test_rows_that_do_not_fit_the_batch_are_refused() -> None:
    recording = Recording()
    recording.update((), [(0, [1], [], 1.0), (2, [1], [], 0.5)], ())
    with pytest.raises(ValueError, match="3 rows of logits for 2 requests"):
        recording.record(torch.zeros(3))
    with pytest.raises(ValueError, match=r"slots \[0, 2\]"):
        _ = recording.temperatures
    recording.update((), (), [(2, 1, False)])
    assert recording.temperatures == [1.0, 0.5]
    recording.update([0], (), [(1, 0, False)])
    assert recording.temperatures == [0.5]
