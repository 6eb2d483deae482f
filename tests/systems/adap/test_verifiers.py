"""The verifiers: the parity files with the sound verdict everywhere, outcomes, bad references, commands."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap import isolation
from sif_trainer.systems.adap.make import make
from sif_trainer.systems.adap.parts import Candidate, Problem, Verdict
from sif_trainer.systems.adap.programs import extract_code, same_json, same_value, same_words
from sif_trainer.systems.adap.verifiers import VERIFIERS, CommandVerifier, MathVerifier, TestsVerifier
from sif_trainer.tasks import load as tasks

CONTAINER = pytest.mark.skipif(isolation.strongest_isolation() != "container", reason="needs user namespaces")
NOT_EQUAL = {("1_000", "1000"), ("1e400", "inf")}  # of the parity file; the others are equal, or the same text


def judge(verifier: Any, reference: Any, text: str, cancel: threading.Event | None = None) -> Verdict:
    return verifier.verify(Problem("p", "Solve it.", reference), Candidate(text, 0), cancel=cancel)


def cases(*pairs: tuple[str, str], function: str | None = None) -> dict[str, Any]:
    return {"tests": [{"input": i, "output": o} for i, o in pairs], "function": function}


def test_the_math_verdict_is_sound(shared: Path) -> None:
    cases = json.loads((shared / "fixtures/adap/math_verifier_parity.json").read_text())["match"]
    verifier, published = MathVerifier(), 0
    for case in cases:
        verdict = judge(verifier, case["gold"], rf"So it is $\boxed{{{case['pred']}}}$.")
        sound = (case["pred"], case["gold"]) not in NOT_EQUAL
        assert verdict.passed == sound, case
        published += case["match"] == sound
    assert published < len(cases)


@pytest.mark.parametrize(
    ("pred", "gold"), [("(12)", "(1,2)"), ("1/3", "1/2"), ("12", "1,2"), (r"\sqrt{3}", r"\sqrt2"), ("6/3", "3")]
)
def test_unequal_answers_fail(pred: str, gold: str) -> None:
    assert judge(MathVerifier(), gold, rf"\boxed{{{pred}}}").outcome == "fail"


def test_math_outcomes() -> None:
    assert judge(MathVerifier(), "4", "I cannot say how this would ever end, honestly, in words.").outcome == "fail"
    assert judge(MathVerifier(), "", r"\boxed{4}").outcome == "error"
    assert judge(MathVerifier(), "4", r"\boxed{9^{9^{9^{9}}}}").outcome == "error"
    entry = tasks.Problem("1", "some", "Which?", "B", "mcq", {"options": ["one", "two"]})
    assert judge(MathVerifier(), entry, r"\boxed{B}").passed
    assert judge(MathVerifier("gsm8k"), "1,200", "So she pays 1200 dollars.").passed
    with pytest.raises(UserError, match="problem 'p' has no reference answer"):
        judge(MathVerifier(), None, r"\boxed{4}")
    with pytest.raises(UserError, match="did you mean 'math'"):
        MathVerifier("maths")


@CONTAINER
def test_the_program_verdict_is_sound(shared: Path) -> None:
    cases = json.loads((shared / "fixtures/adap/code_verifier_parity.json").read_text())
    policy = {"int for bool": True, "stdin whitespace-insensitive": True, "float tolerance": True}  # ours to choose
    verifier = TestsVerifier()
    for case in cases:
        verdict = judge(verifier, {"tests": case["tests"], "function": case["fn_name"]}, case["code"])
        sound = policy[case["name"]] if case["sound_verdict"] is None else case["sound_verdict"]
        assert (verdict.outcome == "pass") == sound, (case["name"], verdict)
        assert verdict.outcome != "error"


@CONTAINER
def test_program_outcomes() -> None:
    verifier = TestsVerifier(seconds=1, memory_mb=256)
    double = "```python\nprint(2 * int(input()))\n```"
    verdict = judge(verifier, cases(("1", "2"), ("2", "4")), double)
    assert (verdict.outcome, verdict.detail) == ("pass", "2 tests")
    verdict = judge(verifier, cases(("1", "2"), ("2", "5"), ("x", "x")), double)
    assert (verdict.outcome, verdict.detail) == ("fail", "test 2: another output")
    verdict = judge(verifier, cases(("x", "2")), double)
    assert verdict.outcome == "fail"
    assert "exit status 1: ValueError" in verdict.detail
    verdict = judge(verifier, cases(("1", "1")), "print(1)\nwhile True: pass")
    assert verdict.outcome == "error"
    assert verdict.detail.startswith("test 1: timed out after 1")
    assert verdict.seconds >= 1
    assert judge(verifier, cases(("", "")), "print('x' * 10000)").detail == "test 1: far more output than expected"
    right_then_fails = "print(1, flush=True)\nraise SystemExit(3)"
    assert judge(verifier, cases(("", "1")), right_then_fails).detail.startswith("test 1: exit status 3")


@CONTAINER
def test_function_outcomes() -> None:
    verifier = TestsVerifier(memory_mb=256)
    method = "class Solution:\n    def f(self, a, b):\n        return {'sum': a + b, 'all': (a, b), 'half': a / 3}"
    good = cases(("1\n2", '{"sum": 3, "all": [1, 2], "half": 0.3333333333}'), function="f")
    assert judge(verifier, good, method).passed
    plain = "def helper(x): return 2 * x\ndef f(text: Optional[str]): return helper(text)"
    assert judge(verifier, cases(('"a\\nb\u2028"', '"a\\nb\u2028a\\nb\u2028"'), function="f"), plain).passed
    assert judge(verifier, cases(("1", "2"), function="g"), plain).detail == "test 1: exit status 1: KeyError: 'g'"
    array = "import numpy\ndef f(n): return numpy.arange(n)"
    assert judge(TestsVerifier(seconds=30), cases(("3", "[0, 1, 2]"), function="f"), array).passed
    noisy = "def f(n):\n    print(n)\n    return n"
    assert judge(verifier, cases(("3", "3"), function="f"), noisy).passed


@CONTAINER
def test_the_total_time_and_a_cancellation_end_a_verification() -> None:
    slow = "import time\ntime.sleep(0.4)"
    verdict = judge(TestsVerifier(total_seconds=0.7), cases(*[("", "")] * 9), slow)
    assert verdict.outcome == "error"
    assert verdict.seconds < 5
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    verdict = judge(TestsVerifier(seconds=60), cases(("", "")), "while True: pass", cancel)
    assert verdict.outcome == "error"
    assert "cancelled" in verdict.detail


@CONTAINER
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (None, "has no tests"),
        ({"tests": []}, "has no tests"),
        ({"tests": ["1"]}, "test 1: a test needs the texts"),
        (cases(("1", "1"), ("2", None)), "test 2: a test needs the texts"),
        (cases(("1", "one"), function="f"), "test 1: .*must be JSON"),
        (cases(("a b", "1"), function="f"), "test 1: .*must be JSON"),
    ],
)
def test_bad_tests_are_refused(reference: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"problem 'p'.*{message}"):
        judge(TestsVerifier(), reference, "print(1)")


def test_bad_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="did you mean 'memory_mb'"):
        TestsVerifier(memory=64)
    with pytest.raises(UserError, match="total_seconds is 0"):
        TestsVerifier(total_seconds=0)
    with pytest.raises(UserError, match="did you mean 'tests'"):
        make("verifier", VERIFIERS, "test", {})
    with pytest.raises(UserError, match=r"'math' has other options: .*'rules'.*options: rule"):
        make("verifier", VERIFIERS, "math", {"rules": "math"})
    monkeypatch.setattr(isolation, "why_not", lambda level: "" if level == "user" else "no")
    with pytest.raises(UserError, match="allow_weaker_isolation=true"):
        TestsVerifier()
    assert TestsVerifier(allow_weaker_isolation=True).isolation.level == "user"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("print(1)", "print(1)"),
        ("Here:\n```python\nprint(1)\n```\nThat is it.", "print(1)\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("```py\nprint(0)\n```\nBetter:\n``` python\nprint(1)\n```", "print(1)\n"),
        ("print(1)\n```\nThis prints.", "print(1)\n"),  # the prompt had opened the fence
        ("print(1)\n```\nOr:\n```python\nprint(2)\n```", "print(1)\n"),
        ("Here:\n```python\nprint(1)", "print(1)"),  # cut off
        ("```python\nprint(0)\n```\n```python\nprint(1)", "print(1)"),
    ],
)
def test_the_program_is_found_in_a_reply(text: str, code: str) -> None:
    assert extract_code(text) == code


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        (b"1\n\n 2", "1 2", True),
        (b"1 2 3", "1 2", False),
        (b"", "1", False),
        (b"0.30000000000000004", "0.3", True),
        (b"0.3001", "0.3", False),
        (b"3", "3.0", True),
        (b"3.0", "3", False),  # an integer is met exactly
        (b"1000000000000000001", "1000000000000000000", False),
        (b"1e3", "1000.0", True),
        (b"1_0.0", "10.0", False),
        (b"nan", "0.5", False),
        (b"inf", "1e999", False),
        (b"YES", "yes", False),
        (b"\xff", "x", False),
        (b"0." + b"0" * 100_000, "0.0", False),
    ],
)
def test_words_are_compared(output: bytes, expected: str, same: bool) -> None:
    assert same_words(output, expected, tolerance=1e-6) == same


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_values_are_compared_as_python_does_without_a_tolerance(one: Any, other: Any) -> None:
    assert same_value(one, one, 0.0)
    assert same_value(one, other, 0.0) == (one == other)


def test_floats_are_met_within_the_tolerance_and_integers_exactly() -> None:
    assert same_value([{"x": 0.1 + 0.2}], [{"x": 0.3}], 1e-9)
    assert not same_value([{"x": 0.31}], [{"x": 0.3}], 1e-9)
    assert same_value(2, 2.0000000001, 1e-6)
    assert not same_value(2.0000000001, 2, 1e-6)
    assert not same_value(10**400, 1.5, 1e-6)
    assert not same_value("0.3", 0.3, 1e-6)


def test_nan_is_met_by_nan_alone() -> None:
    assert same_json(b"[NaN, 1]", "[NaN, 1]", 1e-6) and same_words(b"nan\n", "nan", 1e-6)
    for got, expected in (("1.0", "NaN"), ("NaN", "1.0"), ("NaN", "Infinity"), ("null", "NaN"), ('"NaN"', "NaN")):
        assert not same_json(got.encode(), expected, 1e-6)
    assert not same_words(b"NaN", "nan", 1e-6) and not same_words(b"0.0", "nan", 1e-6)
    assert not same_value(10**400, math.nan, 1e-6)


CHECK = """
import json, os, sys, time
problem = json.load(open(sys.argv[2]))
text = open(sys.argv[1]).read()
assert text == sys.stdin.read()
if text == "slow": time.sleep(60)
if text == "killed": os.kill(os.getpid(), 9)
if text == "odd":
    print("cannot tell", file=sys.stderr)
    sys.exit(2)
sys.exit(0 if text == problem["reference"]["answer"] else 1)
"""


def test_a_command_judges_by_its_exit_status(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(CHECK)
    verifier = CommandVerifier(f"{sys.executable} {tmp_path}/check.py {{candidate}} {{problem}}", seconds=30)
    reference = {"answer": "grün"}
    outcomes = {text: judge(verifier, reference, text) for text in ("grün", "rot", "killed", "odd")}
    assert {text: verdict.outcome for text, verdict in outcomes.items()} == {
        "grün": "pass",
        "rot": "fail",
        "killed": "error",
        "odd": "error",
    }
    assert outcomes["odd"].detail == "exit status 2: cannot tell"
    verifier.seconds = 0.5
    assert judge(verifier, reference, "slow").detail == "timed out"
    cancel = threading.Event()
    cancel.set()
    verifier.seconds = 60
    assert judge(verifier, reference, "slow", cancel).detail == "cancelled"


def test_what_a_command_started_ends_with_it(tmp_path: Path) -> None:
    verifier = CommandVerifier(f"sh -c 'sleep 77 & echo $! > {tmp_path}/child'")
    assert judge(verifier, None, "x").passed
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if f"{child} (sleep) Z" in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the child lives on")


def test_bad_commands_are_refused() -> None:
    with pytest.raises(UserError, match="command is empty"):
        CommandVerifier(" ")
    with pytest.raises(UserError, match="no command line"):
        CommandVerifier("'check")
    with pytest.raises(UserError, match="seconds is 0"):
        CommandVerifier("true", seconds=0)
    with pytest.raises(UserError, match="cannot start the verifier '/no/such'"):
        judge(CommandVerifier("/no/such"), None, "x")


@CONTAINER
def test_the_example_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "adap_verifiers.md").read_text(encoding="utf-8")
    exec(text.split("```python\n", 1)[1].split("\n```\n\nA verdict", 1)[0], {})
    assert capsys.readouterr().out == "pass\npass\n"
