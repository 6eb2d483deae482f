"""Judges for a user's records: a command, a Python function, or a policy with labels.

CommandJudge("python decide.py", timeout=30)      # kept records as JSON lines on its standard input
load_function("decide.py:decide")                 # a function of a list of records
PolicyJudge(policy, "May Ana enter the lab?", ("YES", "NO"))
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence

from sif_trainer.own_code import load_own
from sif_trainer.policy import Policy, shared_prefixes
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.jointcore.archive import Record


class CommandJudge:
    """Decides by a command's exit status: 0 or 1 are decisions, anything else, and a timeout, a failure.

    A crash of most interpreters ends with status 1 as well. It is told from a decision by what it writes to standard
    error: on the complete records that is a failure; on a subset it counts in `num_noisy` and `last_noise`.
    """

    def __init__(self, command: str, timeout: float = 60.0) -> None:
        self.arguments = shlex.split(command)
        if not self.arguments:
            raise UserError("the judge's command is empty; give one such as command='python decide.py'")
        self.timeout = timeout
        self.num_calls = self.num_noisy = 0
        self.last_noise = ""

    def __call__(self, kept: list[Record]) -> int:
        lines = "".join(f"{json.dumps(record)}\n" for record in kept)
        where = f"the judge '{shlex.join(self.arguments)}', asked about {len(kept)} records,"
        try:
            process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"cannot start the judge '{self.arguments[0]}': {error.strerror}") from error
        try:
            _, noise = process.communicate(lines, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the children that it may have started
            process.communicate()
            raise UserError(
                f"{where} gave no answer within {self.timeout:g} seconds; raise timeout= or mend it"
            ) from None
        noise = noise.strip().rsplit("\n", 1)[-1][:200]
        status = process.returncode
        crashed_at_once = status == 1 and noise and self.num_calls == 0
        if status not in (0, 1) or crashed_at_once:
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
            said = f", saying '{noise}'" if noise else ""
            raise UserError(f"{where} {how}{said}; a decision is status 0 or 1, 1 without words on standard error")
        self.num_calls += 1
        if noise:
            self.num_noisy, self.last_noise = self.num_noisy + 1, noise
        return status


def load_function(name: str) -> Callable[[list[Record]], str | float]:
    """Return the function that `module:function` or `path.py:function` names."""
    try:
        function = load_own(name)
    except ValueError as error:
        raise UserError(f"cannot load the judge {error}") from error
    if not callable(function):
        raise UserError(f"the judge '{name}' is no function")

    def judge(kept: list[Record]) -> str | float:
        try:
            decision = function(kept)
        except Exception as error:
            kind = type(error).__name__
            raise UserError(f"the judge '{name}', asked about {len(kept)} records, raised {kind}: {error}") from error
        if not isinstance(decision, str | int | float):
            raise UserError(
                f"the judge '{name}' returned {decision!r:.60}; a decision is a text, a number or a boolean"
            )
        return decision

    return judge


class PolicyJudge:
    """Decides by the label that the policy finds likeliest, by mean log-probability per token; ties go to the first.

    Raises:
        UserError: fewer than two labels, or labels that start with the same token, of which the policy's view at the
            point of decision is one and the same.
    """

    def __init__(self, policy: Policy, question: str, labels: Sequence[str]) -> None:
        if len(labels) < 2:
            raise UserError("a policy needs at least two labels to decide between; give labels=[YES, NO]")
        tokens = policy.label_tokens(labels)
        for i, j in shared_prefixes(tokens):
            raise UserError(
                f"the labels {labels[i]!r} and {labels[j]!r} start with the same token of this model; "
                "choose labels that differ from their first token on"
            )
        self.policy, self.question, self.labels = policy, question, tuple(labels)
        self._lengths = [len(ids) for ids in tokens]

    def __call__(self, kept: list[Record]) -> str:
        scores = self.policy.score([self.prompt(kept)], self.labels)[0]
        means = [score / length for score, length in zip(scores, self._lengths, strict=True)]
        return self.labels[means.index(max(means))]

    def prompt(self, kept: list[Record]) -> list[dict[str, str]]:
        """Return the chat messages for a subset of the records."""
        records = "\n".join(f"- {record['text']}" for record in kept) or "(no records)"
        answers = " or ".join(self.labels)
        return [
            {"role": "system", "content": "Decide from the records alone. What they do not say is not known."},
            {"role": "user", "content": f"Records:\n{records}\n\n{self.question}\nAnswer {answers} and nothing else."},
        ]
