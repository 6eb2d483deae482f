"""Call a function in a fresh process that already has its libraries: what a call leaves behind, the next never sees.

    summary = call_fresh(train_in, path, values, preload=["sif_trainer.trainer.trainer"])

The libraries are imported once, in a server that does nothing else; each call gets a fork of it. So calls in sequence
share no random state, no singletons and no memory, and none waits for torch again. A process that dies takes no other
with it, and none outlives its caller, however that ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from sif_trainer.runs.errors import UserError

T = TypeVar("T")


class ProcessFailed(Exception):
    """The function failed for a reason that is not the user's, or its process died."""


def call_fresh(function: Callable[..., T], *args: Any, preload: Sequence[str]) -> T:
    """Return what the function returns; it, its arguments and its result must be picklable.

    Args:
        function: of a module, by which the other process finds it.
        args: its arguments.
        preload: modules that the server imports before the first call; later calls cannot add to them.

    Raises:
        UserError: that the function raised.
        ProcessFailed: for any other exception, whose traceback is printed, or when the process was killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, args))
    process.start()
    sender.close()
    try:
        result, error = receiver.recv()
    except EOFError:
        process.join()
        raise ProcessFailed(
            f"its process ended with status {process.exitcode} (-9: killed, as by a full memory)"
        ) from None
    finally:
        process.terminate()  # also when the caller is interrupted
        process.join()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _answer(sender: Connection, function: Callable[..., Any], args: Sequence[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches the caller as well, who ends this process
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    outcome: tuple[Any, Exception | None]
    try:
        outcome = function(*args), None
    except UserError as error:
        outcome = None, error
    except Exception as error:
        traceback.print_exc()
        outcome = None, ProcessFailed(f"{type(error).__name__}: {error}")
    sender.send(outcome)


def _end_with_the_caller() -> None:
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)
