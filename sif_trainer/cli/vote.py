"""`sif vote FILE [key=value ...]`: the votes outside a trainer, so that anybody can check or reuse them.

    sif vote certainties.jsonl window_wins=7 > votes.jsonl

Each line in holds `group` (a text or a whole number) and `certainty` (the token certainties of one response). Each
line out, in the same order, holds `group`, `eligible`, `profile` (K numbers), `peer_wins`, `reward`, `advantage` and
`keep`. A response that is too short, or has a certainty that is null, NaN or infinite, is not eligible: its profile,
peer_wins and reward are null, its advantage is 0. The rows of a group need not be adjacent, and groups may differ in
size.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import parse_overrides
from sif_trainer.runs.records import read_json_lines, strict_json
from sif_trainer.runs.schema import build

if TYPE_CHECKING:
    from torch import Tensor

    from sif_trainer.feedback.sif import SIFRule

_KEYS = """keys and their defaults, which are the paper's:
  num_windows=10          K, windows per ranked profile
  window_size=100         w, sorted tokens per window
  min_stride=50           s; responses under w + s (K - 1) tokens are not eligible
  window_wins=8           windows in which a response must be higher to beat a peer
  peer_win_rate=0.75      fraction of the other eligible responses that a winner must beat
  advantage_epsilon=1e-6  added to the standard deviation of a group's rewards
"""


@dataclass(frozen=True)
class Advantage:
    """The one setting that is not the rule's."""

    advantage_epsilon: float = field(
        default=1e-6, metadata={"help": "added to the standard deviation of a group's rewards"}
    )

    def __post_init__(self) -> None:
        if not self.advantage_epsilon >= 0:
            raise ValueError(f"advantage_epsilon={self.advantage_epsilon} must not be negative")


@dataclass
class Response:
    """One line in, and what the vote makes of it."""

    group: str | int
    profile: Tensor | None  # (K,) float64; None when not eligible
    verdict: dict[str, Any] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif vote` takes."""
    parser.add_argument(
        "file", metavar="FILE", help="JSON lines with group and certainty; .gz too, - for standard input"
    )
    parser.add_argument("overrides", metavar="key=value", nargs="*", default=[], help="settings of the vote")
    parser.epilog = _KEYS


def run(args: argparse.Namespace) -> int:
    """Read, vote, print."""
    from sif_trainer.feedback.sif import SIFRule

    values = parse_overrides(args.overrides, SIFRule, Advantage)
    rule, epsilon = build(SIFRule, values), build(Advantage, values).advantage_epsilon
    responses = list(_read(args.file, rule))
    if not responses:
        raise UserError(f"{args.file}: no responses in it; expected JSON lines with 'group' and 'certainty'")
    _vote(responses, rule, epsilon)
    for response in responses:
        profile = None if response.profile is None else response.profile.tolist()
        line = {"group": response.group, "eligible": profile is not None, "profile": profile, **response.verdict}
        print(strict_json(line))
    return 0


def _read(file: str, rule: SIFRule) -> Iterator[Response]:
    import torch

    from sif_trainer.certainty.profile import ranked_profile

    for number, record in read_json_lines(file):
        where = f"{file}, line {number}"
        group, certainty = (_required(record, key, where) for key in ("group", "certainty"))
        if type(group) not in (str, int):
            raise UserError(f"{where}: 'group' must be a text or a whole number, not {group!r:.60}")
        values = _numbers(certainty, where)
        if len(values) < rule.min_length or not all(map(math.isfinite, values)):
            yield Response(group, profile=None)
            continue
        row = torch.tensor([values], dtype=torch.float64)
        mask = torch.ones_like(row, dtype=torch.bool)
        yield Response(group, ranked_profile(row, mask, rule.num_windows, rule.window_size)[0])


def _required(record: dict[str, Any], key: str, where: str) -> Any:
    if key not in record:
        raise UserError(f"{where}: no '{key}' in it; each line needs 'group' and 'certainty'")
    return record[key]


def _numbers(certainty: Any, where: str) -> list[float]:
    """Return the certainties as floats, null as NaN."""
    values = certainty if isinstance(certainty, list) else [certainty]
    wrong = [value for value in values if type(value) not in (int, float, type(None))]
    if wrong or values is not certainty:
        raise UserError(f"{where}: 'certainty' must be a list of numbers, not {(wrong or values)[0]!r:.60}")
    try:
        return [math.nan if value is None else float(value) for value in values]
    except OverflowError as error:
        raise UserError(f"{where}: 'certainty' holds a number that is too large") from error


def _vote(responses: list[Response], rule: SIFRule, epsilon: float) -> None:
    """Let each group vote, and write the verdicts into its responses."""
    import torch

    from sif_trainer.feedback.sif import decide

    groups: dict[str | int, list[Response]] = defaultdict(list)
    for response in responses:
        groups[response.group].append(response)
    absent = torch.full((rule.num_windows,), torch.nan, dtype=torch.float64)
    for group in groups.values():
        profiles = torch.stack([absent if response.profile is None else response.profile for response in group])
        eligible = torch.tensor([response.profile is not None for response in group])
        outcome = decide(profiles.unsqueeze(0), eligible.unsqueeze(0), rule, epsilon)
        for i, response in enumerate(group):
            response.verdict = {
                "peer_wins": int(outcome.peer_wins[0, i]) if eligible[i] else None,
                "reward": int(outcome.reward[0, i]) if eligible[i] else None,
                "advantage": float(outcome.advantage[0, i]),
                "keep": bool(outcome.keep[0, i]),
            }
