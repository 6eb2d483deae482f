"""`sif balar chat`: what a person may type, over a pipe and in a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from sif_trainer.systems.balar import BalarConfig, Trace, run_case
from sif_trainer.systems.balar.environments.console import Person
from sif_trainer.systems.balar.environments.worlds import SIZES, WorldElicitor, draw_world
from sif_trainer.systems.balar.parts import Correct, Question, Skip, Stop

ROOT = Path(__file__).parents[3]
QUESTION = Question("Is it red?", ("yes", "no"))


def person(*lines):
    """A person who types these lines and then ends the input; and what they are shown."""
    left, out = list(lines), io.StringIO()

    def read():
        if not left:
            raise EOFError
        return left.pop(0)

    return Person(read, Console(file=out, width=100)), out


@pytest.mark.parametrize(
    ("lines", "free", "reply"),
    [
        (["1"], False, "yes"),
        (["2"], True, "no"),
        ([" YES "], False, "yes"),
        (["rather pink"], True, "rather pink"),
        (["rather pink", "9", "", "/help", "2"], False, "no"),
        (["9"], True, "9"),
        (["/skip"], False, Skip()),
        (["/stop"], True, Stop()),
        (["/jump", "1"], True, "yes"),
        (["/correct", "/correct 1 no", "/correct x no", "1"], True, "yes"),
        (["9" * 5000, f"/correct {'9' * 5000} no", "1"], False, "yes"),
        ([], True, Stop()),
    ],
)
def test_what_a_line_means(lines, free, reply, case):
    who, out = person(*lines)
    assert who.ask(case, case.users[0], QUESTION, free) == reply
    text = out.getvalue()
    assert "Is it red?" in text and "1. yes" in text
    assert text.count("> ") == max(1, len(lines))


@pytest.mark.parametrize("free", [True, False])
def test_words_in_choice_mode_are_asked_again(free, case):
    who, out = person("rather pink", "/help", "2")
    assert who.ask(case, case.users[0], QUESTION, free) == ("rather pink" if free else "no")
    text = out.getvalue()
    assert ("'rather pink' is none of the choices; type its number, 1 to 2" in text) is not free
    assert ("answer with the number of a choice; /skip" in text) is not free and "in your words" not in text


def test_a_whole_chat_with_skips_and_a_correction():
    """The belief after a correction is the one of having answered so at once."""
    size = SIZES["small"]
    world = draw_world(size, 2)
    config = BalarConfig(alpha=1e-12, max_asks=4, num_questions=12, max_states=28, max_values=3, answer_mode="choice")
    runs = {}
    for name, lines in {
        "corrected": ["1", "/skip", "/correct 1 2", "2", "3"],
        "straight": ["2", "/skip", "2", "3"],
    }.items():
        who, out = person(*lines)
        trace = Trace()
        runs[name] = run_case(world.case, WorldElicitor(world, config), who, config, trace, who.watch)
        who.show_options(world.case)
        assert "█" in out.getvalue() and "value 1 of 1" in out.getvalue() and "option 1" in out.getvalue()
    corrected, straight = runs.values()
    assert corrected.log[0].answer == "choice 2" and len(corrected.log) == 3 and corrected.num_skips == 1
    if [turn.question for turn in corrected.log] == [turn.question for turn in straight.log]:
        assert corrected.last.entropy == pytest.approx(straight.last.entropy)


def test_a_correction_names_an_answer_of_the_log(case):
    size = SIZES["small"]
    world = draw_world(size, 2)
    config = BalarConfig(alpha=1e-12, max_asks=2, num_questions=12, max_states=28, max_values=3, answer_mode="choice")
    who, out = person("1", "/correct 2 1", "/correct 1 maybe", "/correct 1 3", "1")
    trace = Trace()
    run_case(world.case, WorldElicitor(world, config), who, config, trace, who.watch)
    replies = [record["value"] for record in trace.records if record["step"] == "reply"]
    assert replies == ["choice 1", {"command": "Correct", **Correct(0, "choice 3")._asdict()}, "choice 1"]
    assert "there is no answer 2; 1 were given" in out.getvalue()
    assert "'maybe' is none of the choices; type its number, 1 to 3" in out.getvalue()


def start(tmp_path, run="run"):
    return [sys.executable, "-m", "sif_trainer.cli.main", "balar", "chat", "balar/chat", "--run", str(tmp_path / run)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "100"}


def test_over_a_pipe(tmp_path):
    lines = "2\n/skip\n/correct 1 less than a year\nsome\n2\n1\n"
    done = subprocess.run(
        start(tmp_path), input=lines, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and "Answer: " in done.stdout and "worn" in done.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["num_asks"] == 4 and summary["answer"] in done.stdout
    assert "has ended" not in done.stdout
    again = subprocess.run(start(tmp_path), input="1\n", cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert "this chat has ended, and is only shown again" in again.stdout
    assert again.stdout.splitlines()[-2:] == done.stdout.splitlines()[-2:]


def test_a_chat_goes_on_where_the_pipe_broke_off(tmp_path):
    arguments = {"cwd": tmp_path, "env": ENVIRONMENT, "text": True}
    whole = subprocess.run(start(tmp_path, "whole"), input="2\n2\n2\n1\n", capture_output=True, **arguments)
    process = subprocess.Popen(start(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **arguments)
    process.stdin.write("2\n2\n")
    process.stdin.flush()
    journal = tmp_path / "run" / "chat.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        journal.exists() and journal.read_text(encoding="utf-8").count('"step": "soft_map"') == 2
    ):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    again = subprocess.run(start(tmp_path), input="2\n1\n", capture_output=True, **arguments)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-2:] == whole.stdout.splitlines()[-2:]
    assert again.stdout.count("> ") == 2


def test_in_a_terminal(tmp_path):
    """A pseudo terminal: colours, bars, and the same ending."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        start(tmp_path),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=tmp_path,
        env=ENVIRONMENT,
        close_fds=True,
    )
    os.close(follower)
    shown, answers = "", ["2", "/skip", "/stop"]
    while True:
        try:
            data = os.read(leader, 4096)
        except OSError:  # the terminal is gone with its last process
            break
        if not data:
            break
        shown += data.decode(errors="replace")
        if answers and re.search(r"> $", shown):
            os.write(leader, f"{answers.pop(0)}\n".encode())
    os.close(leader)
    assert process.wait() == 0
    assert "\x1b[" in shown and "█" in shown and "ended: user" in shown
