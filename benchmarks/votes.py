"""Profiles and votes of one step, all at once, against the same in plain loops.

    python benchmarks/votes.py [--repeats 7] [--device cuda]

64 groups of 8 responses of up to 3,072 tokens: the paper's step and rule. The yardstick is the oracle of the tests
(`tests/feedback/oracle.py`): one response, pair and window at a time, in Python, on the CPU, on lists that are made
beforehand. The two are timed in alternation and their verdicts are compared. On a CPU nearly all of both is sorting,
which Python's `sorted` does in C as well, so that the sort decides the ratio there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import torch
from torch import Tensor

from sif_trainer.certainty.profile import ranked_profile
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.sif import SIFRule, decide

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "feedback"))
import oracle

NUM_GROUPS, GROUP, MAX_LENGTH = 64, 8, 3072
RULE = SIFRule()
Rows = list[list[float]]


def responses() -> tuple[Tensor, Tensor]:
    """(B, T) fp32 certainties, each response around a level of its own, and (B, T) which are valid."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(50, MAX_LENGTH + 1, (NUM_GROUPS * GROUP,), generator=generator)
    level = 20 + 3 * torch.randn(len(lengths), 1, generator=generator)
    certainty = (level + 8 * torch.randn(len(lengths), MAX_LENGTH, generator=generator)).clamp(min=0)
    return certainty, torch.arange(MAX_LENGTH) < lengths[:, None]


def profiles_at_once(certainty: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    profile = ranked_profile(certainty, mask, RULE.num_windows, RULE.window_size)
    eligible = mask.sum(1) >= RULE.min_length
    return profile.view(NUM_GROUPS, GROUP, -1), eligible.view(NUM_GROUPS, GROUP)


def votes_at_once(profile: Tensor, eligible: Tensor) -> GroupOutcome:
    return decide(profile, eligible, RULE)


def profiles_in_loops(rows: Rows) -> list[list[list[float] | None]]:
    profiles = [
        oracle.profile(row, RULE.num_windows, RULE.window_size) if len(row) >= RULE.min_length else None
        for row in rows
    ]
    return [profiles[i : i + GROUP] for i in range(0, len(profiles), GROUP)]


def votes_in_loops(groups: list[list[list[float] | None]]) -> list[list[oracle.Verdict]]:
    rate = Fraction(RULE.peer_win_rate)
    return [oracle.decide(group, RULE.window_wins, rate, 1e-6) for group in groups]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    certainty, mask = responses()
    rows = [row[valid].tolist() for row, valid in zip(certainty, mask, strict=True)]
    certainty, mask = certainty.to(args.device), mask.to(args.device)

    def seconds(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        if args.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    profiles, looped = profiles_at_once(certainty, mask), profiles_in_loops(rows)  # also the warm-up
    outcome, verdicts = votes_at_once(*profiles), votes_in_loops(looped)
    assert outcome.keep.tolist() == [[verdict.keep for verdict in group] for group in verdicts]
    print(
        f"{NUM_GROUPS} groups of {GROUP}, {len(rows)} responses, {int(mask.sum()):,} tokens, {args.device}, "
        f"{torch.get_num_threads()} threads, {args.repeats} repeats; "
        f"{outcome.eligible.double().mean():.0%} eligible, {outcome.keep.double().mean():.0%} kept\n"
    )
    times: dict[str, list[tuple[float, float]]] = {"profiles": [], "votes": [], "together": []}
    for _ in range(args.repeats):
        for name, once, loops in (
            ("profiles", lambda: profiles_at_once(certainty, mask), lambda: profiles_in_loops(rows)),
            ("votes", lambda: votes_at_once(*profiles), lambda: votes_in_loops(looped)),
        ):
            times[name].append((seconds(once), seconds(loops)))
        times["together"].append(tuple(map(sum, zip(times["profiles"][-1], times["votes"][-1], strict=True))))
    columns = ("at once, min", "median", "loops, min", "median", "ratio, min", "median")
    print(f"{'milliseconds':12}" + "".join(f"{column:>14}" for column in columns))
    for name, pairs in times.items():
        once, loops = zip(*pairs, strict=True)
        ratios = min(loops) / min(once), statistics.median(b / a for a, b in pairs)
        cells = [1e3 * value for values in (once, loops) for value in (min(values), statistics.median(values))]
        print(
            f"{name:12}" + "".join(f"{cell:14.2f}" for cell in cells) + "".join(f"{ratio:14.1f}" for ratio in ratios)
        )


if __name__ == "__main__":
    main()
