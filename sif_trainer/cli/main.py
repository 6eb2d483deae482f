"""The `sif` command: finds the subcommand, imports it and nothing else, and turns errors into one line.

    sif --help
    python -m sif_trainer.cli.main train smoke/quickstart      # the same, as `accelerate launch -m` wants it

A command is a module with `add_arguments(parser)` and `run(args) -> int`; adding one is a line in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from sif_trainer import __version__
from sif_trainer.runs.errors import UserError, nearest

COMMANDS = {  # name: (module, what it does)
    "check": ("sif_trainer.cli.check", "say what a recipe will do, need and take, before anything is spent"),
    "resolve": ("sif_trainer.cli.resolve", "print a recipe as the commands read it, or one of its values"),
    "train": ("sif_trainer.cli.train", "train a policy from a recipe, without an answer key"),
    "adapt": ("sif_trainer.cli.adapt", "adapt a model to an unlabeled benchmark and evaluate its checkpoints"),
    "eval": ("sif_trainer.cli.eval", "evaluate a model on benchmarks, or compare two evaluations"),
    "grade": ("sif_trainer.cli.grade", "grade answers that were made elsewhere"),
    "overlap": ("sif_trainer.cli.overlap", "find evaluation problems that stand in the training prompts"),
    "vote": ("sif_trainer.cli.vote", "apply the votes to token certainties of your own"),
    "probe": ("sif_trainer.cli.probe", "ask, before training, whether internal feedback is likely to help"),
    "study": ("sif_trainer.cli.study", "compare rules under equal conditions, over seeds"),
    "analyze": ("sif_trainer.cli.analyze", "draw what the records of training runs show, or the theory's toy"),
    "report": ("sif_trainer.cli.report", "write one HTML page of a run, or of several compared"),
    "view": ("sif_trainer.cli.view", "show a run's groups of completions in the terminal"),
    "jointcore": ("sif_trainer.cli.jointcore", "find the records of a memory that a decision needs"),
    "balar": ("sif_trainer.cli.balar", "ask the questions that a case needs, by what each is expected to tell"),
    "adap": ("sif_trainer.cli.adap", "search a policy's completions for one that passes a verifier, at little cost"),
}


class _Parser(argparse.ArgumentParser):
    """Reports what it cannot parse as every other error of the user's is reported."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `sif` with the given arguments (default: the process's own) and return its exit status.

    0: done; 1: done, but for runs of a study that failed, or a check found a problem; 2: bad input; 130: interrupted;
    141: the reader of the output went away.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = "" if not arguments or arguments[0].startswith("-") else arguments.pop(0)
    name = f"sif {command}".strip()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # whatever the data hold can be printed
    try:
        status = _run(command, arguments) if command else _overview(arguments)
        sys.stdout.flush()
        return status
    except UserError as error:
        _tell(f"{name}: error: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        _tell(f"{name}: stopped; call again to resume")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails once more
        return 141
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _tell(f"{name}: error: cannot write the output: {error.strerror}; free some space")
        return 2


def _tell(line: str) -> None:
    """Print why it ended; of the processes of a launcher the first alone, because they end for one reason.

    torch's launcher prints pages behind it, and last, as the root cause, what stands in the file that it gives to each
    process. launch/train.sh shows the line once more, after all that.
    """
    for_launcher, for_script = (os.environ.get(name) for name in ("TORCHELASTIC_ERROR_FILE", "SIF_ERROR_FILE"))
    if for_launcher:
        told = {"message": line, "extraInfo": {"timestamp": str(int(time.time()))}}
        Path(for_launcher).write_text(json.dumps({"message": told}), encoding="utf-8")
    if for_script:
        with Path(for_script).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    if not for_launcher or os.environ.get("RANK") == "0":
        print(line, file=sys.stderr)


def _run(command: str, arguments: list[str]) -> int:
    if command not in COMMANDS:
        raise UserError(f"no command '{command}'{nearest(command, COMMANDS)} (see sif --help)")
    module_name, description = COMMANDS[command]
    module = importlib.import_module(module_name)
    parser = _Parser(
        prog=f"sif {command}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    status: int = module.run(parser.parse_intermixed_args(arguments))
    return status


def _overview(arguments: list[str]) -> int:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {description}" for name, (_, description) in COMMANDS.items()]
    parser = _Parser(
        prog="sif",
        usage="sif COMMAND ...",
        description="Reinforcement learning of language models from their own certainty.",
        epilog="\n".join(["commands:", *lines, "", "sif COMMAND --help tells what a command takes."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sif {__version__}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
