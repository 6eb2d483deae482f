"""`sif vote FILE [--rule NAME] [key=value ...]`: the votes outside a trainer, so that anybody can check or reuse them.

    sif vote certainties.jsonl window_wins=7 > votes.jsonl
    sif vote certainties.jsonl --rule top2

Each line in holds `group` (a text or a whole number) and `certainty` (the token certainties of one response). Each
line out, in the same order, holds `group`, `eligible`, `profile` (K numbers), `peer_wins`, `reward`, `advantage` and
`keep`. A response that has a certainty that is null, NaN or infinite, or is too short for a rule with windows, is not
eligible: its profile, peer_wins and reward are null, its advantage is 0. The rows of a group need not be adjacent, and
groups may differ in size. Any rule of docs/rules.md that needs nothing but certainties can be named.
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

    from sif_trainer.feedback.groups import Groups
    from sif_trainer.feedback.settings import FeedbackSettings

_KEYS = """keys and their defaults, which are the paper's:
  num_windows=10          K, windows per ranked profile
  window_size=100         w, sorted tokens per window
  min_stride=50           s; responses under w + s (K - 1) tokens are not eligible
  window_wins=8           windows in which a response must be higher to beat a peer
  peer_win_rate=0.75      fraction of the other eligible responses that a winner must beat
  advantage_epsilon=1e-6  added to the standard deviation of a group's rewards
keys of single rules (docs/rules.md): num_top, filter_rate, gate_threshold
"""
LARGEST = 1e100  # no certainty is near it; sums of squares stay finite
_SEED = 0  # of rules that draw: the same file gives the same verdicts


@dataclass
class Response:
    """One line in, and what the vote makes of it."""

    group: str | int
    certainty: list[float]
    verdict: dict[str, Any] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif vote` takes."""
    parser.add_argument(
        "file", metavar="FILE", help="JSON lines with group and certainty; .gz too, - for standard input"
    )
    parser.add_argument("--rule", help="feedback rule that needs only certainties (default: sif)")
    parser.add_argument("overrides", metavar="key=value", nargs="*", default=[], help="settings of the vote")
    parser.epilog = _KEYS


def run(args: argparse.Namespace) -> int:
    """Read, vote, print."""
    from sif_trainer.feedback.rules import RULES
    from sif_trainer.feedback.settings import FeedbackSettings

    values = parse_overrides(args.overrides, FeedbackSettings)
    if args.rule is not None and "feedback" in values:
        raise UserError(f"--rule {args.rule} and feedback={values['feedback']} both name the rule; leave one out")
    settings = build(FeedbackSettings, {"feedback": args.rule or "sif", **values})
    rule = settings.find_rule()
    if not rule.reads_certainty_only:
        possible = ", ".join(name for name, other in RULES.items() if other.reads_certainty_only)
        raise UserError(
            f"rule '{settings.feedback}' also reads {', '.join(sorted(rule.reads))}, and the file holds certainties "
            f"only; rules that need no more: {possible}"
        )
    responses = list(_read(args.file))
    if not responses:
        raise UserError(f"{args.file}: no responses in it; expected JSON lines with 'group' and 'certainty'")
    _vote(responses, settings)
    for response in responses:
        print(strict_json({"group": response.group, **response.verdict}))
    return 0


def _read(file: str) -> Iterator[Response]:
    for number, record in read_json_lines(file):
        where = f"{file}, line {number}"
        group, certainty = (_required(record, key, where) for key in ("group", "certainty"))
        if type(group) not in (str, int):
            raise UserError(f"{where}: 'group' must be a text or a whole number, not {group!r:.60}")
        yield Response(group, _numbers(certainty, where))


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
    if any(value is not None and LARGEST < abs(value) < math.inf for value in values):
        raise UserError(f"{where}: 'certainty' holds a number beyond {LARGEST:g}; variances would overflow")
    return [math.nan if value is None else float(value) for value in values]


def _vote(responses: list[Response], settings: FeedbackSettings) -> None:
    """Let all groups vote, padded to the largest by responses that are not usable; write the verdicts."""
    from sif_trainer.probe.rules import vote

    places: dict[str | int, list[Response]] = defaultdict(list)
    for response in responses:
        places[response.group].append(response)
    size = max(map(len, places.values()))
    rows = [place[i].certainty if i < len(place) else [] for place in places.values() for i in range(size)]
    groups = _groups(rows, size, settings)
    outcome = vote(groups, settings)
    for p, members in enumerate(places.values()):
        for i, response in enumerate(members):
            eligible = bool(outcome.eligible[p, i])
            response.verdict = {
                "eligible": eligible,
                "profile": _profile(groups.profile[p, i]) if eligible else None,
                "peer_wins": int(outcome.peer_wins[p, i]) if eligible else None,
                "reward": _reward(float(outcome.reward[p, i])) if eligible else None,
                "advantage": float(outcome.advantage[p, i]),
                "keep": bool(outcome.keep[p, i]),
            }


def _groups(rows: list[list[float]], size: int, settings: FeedbackSettings) -> Groups:
    """What a rule may see of token certainties, `size` rows per group. A row at a time: lengths may differ widely."""
    import torch

    from sif_trainer.certainty.profile import ranked_profile
    from sif_trainer.feedback.groups import Groups

    profiles, means, variances, usable = [], [], [], []
    for row in rows:
        fine = bool(row) and all(map(math.isfinite, row))
        values = torch.tensor([row if fine else []], dtype=torch.float64)
        mask = torch.ones_like(values, dtype=torch.bool)
        profiles.append(ranked_profile(values, mask, settings.num_windows, settings.window_size)[0])
        means.append(values.mean())
        variances.append((values - values.mean()).square().mean())
        usable.append(fine)
    shape = (-1, size)
    return Groups(
        profile=torch.stack(profiles).view(*shape, settings.num_windows),
        length=torch.tensor([len(row) for row in rows]).view(shape),
        certainty_mean=torch.stack(means).view(shape),
        certainty_variance=torch.stack(variances).view(shape),
        usable=torch.tensor(usable).view(shape),
        seed=_SEED,
    )


def _profile(profile: Tensor) -> list[float] | None:
    """The profile, or None of a response that is shorter than a window, which some rules take."""
    return None if profile.isnan().any() else profile.tolist()


def _reward(value: float) -> float | int:
    return int(value) if value.is_integer() else value
