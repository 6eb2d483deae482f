"""What commands of several stages share (`sif jointcore`, `sif balar`, `sif adap`): from the arguments to a stage.

STAGES = {"plan": _plan, "search": _search}
hand_over(args, STAGES)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder

Stages: TypeAlias = Mapping[str, Callable[[argparse.Namespace], None]]


def add_stage_arguments(parser: argparse.ArgumentParser, command: str, stages: Stages, doc: str) -> None:
    """Declare the stage, its arguments and the run folder; the second paragraph of `doc` is the help's last."""
    parser.set_defaults(command=command)
    parser.add_argument("stage", metavar="STAGE", help=f"one of {', '.join(stages)}")
    parser.add_argument(
        "arguments", metavar="...", nargs="*", help="the stage's file or recipe, then key=value settings"
    )
    parser.add_argument("--run", metavar="FOLDER", help="run folder; called again, the command goes on there")
    parser.epilog = doc.split("\n\n")[1]


def hand_over(args: argparse.Namespace, stages: Stages) -> int:
    """Call the stage. Raises `UserError` for one that there is not."""
    if args.stage not in stages:
        raise UserError(f"no stage '{args.stage}'{nearest(args.stage, stages)}; there are {', '.join(stages)}")
    stages[args.stage](args)
    return 0


def target(args: argparse.Namespace, what: str) -> tuple[str, list[str]]:
    """Return the stage's first argument, which is `what`, and the settings behind it."""
    if not args.arguments or "=" in args.arguments[0]:
        raise UserError(f"name {what} before the settings: sif {args.command} {args.stage} ...")
    return args.arguments[0], args.arguments[1:]


def open_folder(args: argparse.Namespace, name: str, config: Mapping[str, Any], **more: Any) -> RunFolder:
    """Open the stage's run folder, `runs/<command>-<name>` unless `--run` names another; `more` as in `RunFolder`."""
    path = args.run or f"runs/{args.command}-{name}"
    return RunFolder.open(path, command=f"{args.command} {args.stage}", config=config, **more)
