"""`sif view RUN`: the groups of completions of a run, in the terminal.

sif view runs/train/smoke/quickstart --where "step 41"
sif view runs/train/smoke/quickstart --tag "with a winner" --most 0 | less -R
sif view runs/eval/smoke/evaluate --text boxed --color | less -R
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from sif_trainer.report.completions import Group
from sif_trainer.runs.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `sif view` takes."""
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("--where", metavar="NAME", help='only groups of this step ("step 41") or benchmark')
    parser.add_argument("--tag", metavar="TAG", help='only groups like this, such as "with a winner"')
    parser.add_argument("--text", metavar="TEXT", help="only groups whose prompt, id or completions hold this")
    parser.add_argument("--most", type=int, default=3, metavar="N", help="print at most N groups (default: 3; 0: all)")
    parser.add_argument("--color", action="store_true", help="colours in a pipe as well, for less -R")


def run(args: argparse.Namespace) -> int:
    """Print the groups, and how many more there are."""
    from rich.console import Console

    from sif_trainer.report.kinds import KINDS, kind_of
    from sif_trainer.report.run import read_run
    from sif_trainer.report.view import group_lines

    opened = read_run(Path(args.run))
    read = kind_of(opened).groups
    if read is None:
        having = ", ".join(f"`sif {name}`" for name, kind in KINDS.items() if kind.groups)
        raise UserError(f"{args.run} keeps no groups of completions; runs of {having} do")
    groups = read(opened)
    if not len(groups):
        raise UserError(f"{args.run} has no completions yet")
    if args.most < 0:
        raise UserError(f"--most {args.most} must be 0 (all) or more")
    console = Console(highlight=False, force_terminal=args.color or None)
    num_printed = num_like = 0
    tags, places = set(), dict[str, None]()
    for index in range(len(groups)):
        group = groups[index]
        tags |= set(group.tags)
        places[group.where] = None
        if _is_wanted(group, args):
            num_like += 1
            if args.most == 0 or num_printed < args.most:
                num_printed += 1
                for line in group_lines(group):
                    console.print(line)
    if not num_like:
        raise UserError(
            f"no group of the {len(groups)} in {args.run} is like this; --where takes {_some(places)}; --tag takes "
            f"{_some(sorted(tags))}"
        )
    print(f"\n{num_printed} of {num_like} groups" + (" (--most 0 prints all)" if num_printed < num_like else ""))
    return 0


def _is_wanted(group: Group, args: argparse.Namespace) -> bool:
    texts = [group.prompt, group.id, *("".join(member.tokens) or member.text for member in group.members)]
    return (
        (args.where is None or group.where == args.where)
        and (args.tag is None or args.tag in group.tags)
        and (args.text is None or any(args.text.lower() in text.lower() for text in texts))
    )


def _some(names: Collection[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in [*names][:12])
    return (shown or "nothing") + (f" and {len(names) - 12} more" if len(names) > 12 else "")
