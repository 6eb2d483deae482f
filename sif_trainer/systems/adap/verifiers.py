"""Verifiers: a mathematical answer, unit tests, an external command.

    MathVerifier().verify(Problem("p", "1 + 1 = ?", reference="2"), Candidate(r"\\boxed{2}", 0))
    TestsVerifier().verify(Problem("p", "Double it.", {"tests": [{"input": "3", "output": "6"}]}), candidate)
    CommandVerifier("python check.py {candidate} {problem}").verify(problem, candidate)

The published pipeline compares answers as strings and runs a program in the process that holds the expected outputs.
Here answers go through the project's grader, and programs run in `isolation`, where no expected output ever enters.
A time-out is an `error` and not a `fail`: on a busy machine a right program can run out of time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.systems.adap.isolation import Finished, Isolation, IsolationError, Limits, within
from sif_trainer.systems.adap.parts import Candidate, Outcome, Problem, Verdict, Verifier
from sif_trainer.systems.adap.programs import extract_code, same_json, same_words
from sif_trainer.tasks import load as tasks
from sif_trainer.tasks.grade import grade
from sif_trainer.tasks.rules import RULES

_FUNCTION = Path(__file__).with_name("isolation") / "function.py"


class MathVerifier:
    """Grades the whole reply against `reference`: an answer, or a problem of `tasks.load` with its own rule.

    No answer is a `fail`; an answer, or a reference, that the grader cannot read or compare in time is an `error`.
    """

    def __init__(self, rule: str = "math") -> None:
        if rule not in RULES:
            raise UserError(f"there is no rule '{rule}'{nearest(rule, RULES)}; rules: {', '.join(RULES)}")
        self.rule = rule

    def verify(self, problem: Problem, candidate: Candidate, *, cancel: threading.Event | None = None) -> Verdict:
        started = time.monotonic()
        key = problem.reference
        if isinstance(key, tasks.Problem):
            graded = grade(candidate.text, key.gold, key.rule, **key.fields)
        elif isinstance(key, str):
            graded = grade(candidate.text, key, self.rule)
        else:
            raise UserError(f"problem '{problem.id}' has no reference answer; give a text, such as '42'")
        outcome: Outcome = "pass" if graded.verdict == "correct" else "fail"
        if graded.verdict == "unparsable" and graded.extracted is not None:
            outcome = "error"
        return Verdict(outcome, graded.why, time.monotonic() - started)


class TestsVerifier:
    """Runs the program in a reply on every test of `reference`, each in a fresh isolated process, till one fails.

    `reference` is {"tests": [{"input": ..., "output": ...}, ...], "function": name or None}. Without a function, a
    test gives its input on the standard input, and the printed words must be the expected ones. With one, the input
    holds a JSON value per line, one for each argument, and the value that the function (or the method of `Solution`)
    returns must equal the expected JSON value, as Python compares (1 equals true). Expected numbers that are no
    integers are met within `tolerance`, relative or absolute.

    Raises `UserError` for a reference that is no such thing, and where the isolation is weaker than allowed.
    """

    __test__ = False  # no test of pytest's

    def __init__(
        self,
        total_seconds: float = 60.0,
        tolerance: float = 1e-6,
        allow_weaker_isolation: bool = False,
        **limits: float,
    ) -> None:
        """`limits` are those of one test, by their names in `isolation.Limits`."""
        if not total_seconds > 0 or not tolerance >= 0:
            raise UserError(
                f"total_seconds is {total_seconds} and tolerance is {tolerance}; the first must be more than 0, "
                "the second at least 0"
            )
        self.total_seconds, self.tolerance = total_seconds, tolerance
        known = [field.name for field in fields(Limits)]
        for name in limits:
            if name not in known:
                raise UserError(f"no limit is called '{name}'{nearest(name, known)}; limits: {', '.join(known)}")
        self.limits = Limits(**limits)  # type: ignore[arg-type]  # which are checked there
        self.isolation = Isolation(allow_weaker_isolation)

    def verify(self, problem: Problem, candidate: Candidate, *, cancel: threading.Event | None = None) -> Verdict:
        started = time.monotonic()
        tests, function = _tests(problem)
        files = {"main.py": extract_code(candidate.text)}
        if function is not None:
            files["function.py"] = _FUNCTION.read_text(encoding="utf-8")
        outcome: Outcome = "pass"
        detail = ""
        for number, test in enumerate(tests, 1):
            left = started + self.total_seconds - time.monotonic()
            if left <= 0:
                outcome, detail = "error", f"test {number}: no time left of {self.total_seconds:g} s"
                break
            limits = within(self.limits, left)
            try:
                finished = self.isolation.run(
                    ["main.py" if function is None else "function.py"], files, _stdin(test, function), limits, cancel
                )
            except (IsolationError, OSError) as error:
                outcome, detail = "error", f"test {number}: {error}"
                break
            outcome, detail = self._judge(finished, test["output"], function)
            if outcome != "pass":
                detail = f"test {number}: {detail}"
                break
        return Verdict(outcome, detail or f"{len(tests)} tests", time.monotonic() - started)

    def _judge(self, finished: Finished, expected: str, function: str | None) -> tuple[Outcome, str]:
        if finished.reason:
            return "error", f"{finished.reason} after {finished.seconds:.1f} s"
        if finished.status != 0:
            return "fail", f"exit status {finished.status}: {finished.last_words}"
        output = finished.stdout if function is None else finished.result
        if len(output) > 1000 + 20 * len(expected):
            return "fail", "far more output than expected"  # and nothing that should be read here
        same = same_words if function is None else same_json
        return ("pass", "") if same(output, expected, self.tolerance) else ("fail", "another output")


class CommandVerifier:
    """Judges by the exit status of the user's own command: 0 passes, 1 fails, anything else and a time-out are errors.

    The candidate's text is on its standard input. In its arguments, `{candidate}` and `{problem}` become the paths of
    files with the text and with the problem as JSON (`id`, `prompt`, `reference`, `metadata`). The command runs as
    the user, without isolation.
    """

    def __init__(self, command: str, seconds: float = 60.0) -> None:
        try:
            self.arguments = shlex.split(command)
        except ValueError as error:
            raise UserError(f"the verifier's command is no command line ({error}): {command}") from error
        if not self.arguments:
            raise UserError("the verifier's command is empty; give one such as command='python check.py {candidate}'")
        if not seconds > 0:
            raise UserError(f"seconds is {seconds}; a command needs more than 0")
        self.seconds = seconds

    def verify(self, problem: Problem, candidate: Candidate, *, cancel: threading.Event | None = None) -> Verdict:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sif-verify-") as folder, tempfile.TemporaryFile() as noise:
            paths = {"{candidate}": Path(folder, "candidate.txt"), "{problem}": Path(folder, "problem.json")}
            paths["{candidate}"].write_text(candidate.text, encoding="utf-8", errors="replace")
            paths["{problem}"].write_text(json.dumps(asdict(problem), default=str), encoding="utf-8")
            arguments = [_filled(argument, paths) for argument in self.arguments]
            try:
                with paths["{candidate}"].open("rb") as text:
                    process = subprocess.Popen(
                        arguments, stdin=text, stdout=subprocess.DEVNULL, stderr=noise, start_new_session=True
                    )
            except OSError as error:
                raise UserError(f"cannot start the verifier '{arguments[0]}': {error.strerror}") from error
            reason = _wait(process, started + self.seconds, cancel)
            noise.seek(max(0, noise.tell() - 1000))
            words = noise.read().decode("utf-8", "replace").strip().rsplit("\n", 1)[-1][:200]
        status = process.returncode
        outcome: Outcome = "error" if reason or status not in (0, 1) else "fail" if status else "pass"
        detail = f"{reason or f'exit status {status}'}{': ' if words else ''}{words}"
        return Verdict(outcome, detail, time.monotonic() - started)


VERIFIERS: dict[str, Callable[..., Verifier]] = {
    "math": MathVerifier,
    "tests": TestsVerifier,
    "command": CommandVerifier,
}


def _tests(problem: Problem) -> tuple[Sequence[Mapping[str, str]], str | None]:
    """The tests and the function of a problem's reference, checked."""
    reference = problem.reference
    tests = reference.get("tests") if isinstance(reference, Mapping) else None
    if not tests:
        raise UserError(
            f"problem '{problem.id}' has no tests; its reference must be {{'tests': [...]}} with one or more"
        )
    function = reference.get("function")
    for number, test in enumerate(tests, 1):
        where = f"problem '{problem.id}', test {number}"
        if not isinstance(test, Mapping) or not all(isinstance(test.get(key), str) for key in ("input", "output")):
            raise UserError(f"{where}: a test needs the texts 'input' and 'output', not {test!r:.80}")
        if function is not None:
            try:
                _arguments(test)
                json.loads(test["output"])
            except ValueError as error:
                raise UserError(f"{where}: input (a value per line) and output must be JSON ({error})") from error
    return tests, function


def _arguments(test: Mapping[str, str]) -> list[Any]:
    return [json.loads(line) for line in test["input"].split("\n") if line.strip()]


def _stdin(test: Mapping[str, str], function: str | None) -> bytes:
    if function is None:
        return test["input"].encode("utf-8", "surrogatepass")
    return json.dumps({"function": function, "arguments": _arguments(test)}).encode()


def _filled(argument: str, paths: Mapping[str, Path]) -> str:
    for name, path in paths.items():
        argument = argument.replace(name, str(path))
    return argument


def _wait(process: subprocess.Popen[bytes], deadline: float, cancel: threading.Event | None) -> str:
    """Wait for a command's end, and end all of its session; return "", or why it was stopped."""
    reason = "interrupted"
    try:
        while reason == "interrupted":
            try:
                process.wait(max(0.0, min(0.05, deadline - time.monotonic())))
                reason = ""
            except subprocess.TimeoutExpired:
                if cancel is not None and cancel.is_set():
                    reason = "cancelled"
                elif time.monotonic() >= deadline:
                    reason = "timed out"
        return reason
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
