"""`sif vote`: the golden groups, a plain-loop oracle on random ones, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sif_trainer.cli import vote
from sif_trainer.cli.main import main
from sif_trainer.feedback.rules import RULES
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import SIFRule

SMALL = ["num_windows=3", "window_size=2", "min_stride=1", "window_wins=2"]
Vote = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run_vote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Vote:
    """Votes on (group, certainty) rows and returns the lines that came out."""

    def run(rows: list[tuple[Any, list[Any]]], *settings: str) -> list[dict[str, Any]]:
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(json.dumps({"group": group, "certainty": c}) + "\n" for group, c in rows))
        assert main(["vote", str(file), *settings]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def oracle(certainties: list[list[float]], K: int, w: int, s: int, tau_w: int, tau_p: tuple[int, int]) -> list[Any]:
    """Per response (peer_wins, reward, advantage, keep), or None: sections 1.2 to 1.6 in plain loops."""
    profiles: dict[int, list[float]] = {}
    for i, values in enumerate(certainties):
        if len(values) >= w + s * (K - 1) and all(math.isfinite(value) for value in values):
            ranked = sorted(values, reverse=True)
            starts = [k * (len(values) - w) // (K - 1) for k in range(K)] if K > 1 else [0]
            profiles[i] = [math.fsum(ranked[a : a + w]) / w for a in starts]
    wins = {
        i: sum(sum(x > y for x, y in zip(profiles[i], profiles[j], strict=True)) >= tau_w for j in profiles if j != i)
        for i in profiles
    }
    peers = len(profiles) - 1
    rewards = {i: int(peers > 0 and wins[i] * tau_p[1] >= tau_p[0] * peers) for i in profiles}
    keep = len(set(rewards.values())) == 2
    mean = sum(rewards.values()) / max(len(rewards), 1)
    std = math.sqrt(sum((reward - mean) ** 2 for reward in rewards.values()) / max(peers, 1))
    return [
        (wins[i], rewards[i], (rewards[i] - mean) / (std + 1e-6) if keep else 0.0, keep) if i in profiles else None
        for i in range(len(certainties))
    ]


def test_golden_groups_come_out_in_the_order_they_went_in(run_vote: Vote) -> None:
    groups = {
        "A": [[5, 1, 4, 2], [6, 3, 2, 2, 1], [9, 9, 0, 0, 0, 0], [7, 7, 7], [4, 4, 4, 4]],
        "B": [[5] * 4, [4] * 4, [3] * 4, [3] * 4, [9, 9]],
        3: [[5] * 4] * 3,
        "3": [[5] * 4, [1, 1], []],
    }
    rows = [(name, group[i]) for i in range(5) for name, group in groups.items() if i < len(group)]
    lines = run_vote(rows, *SMALL)
    assert [line["group"] for line in lines] == [name for name, _ in rows]
    got = {name: [line for line in lines if line["group"] == name] for name in groups}
    assert [line["profile"] for line in got["A"]] == [[4.5, 3, 1.5], [4.5, 2.5, 1.5], [9, 0, 0], None, [4, 4, 4]]
    assert [line["peer_wins"] for line in got["A"]] == [1, 1, 0, None, 3]
    assert [line["reward"] for line in got["A"]] == [0, 0, 0, None, 1]
    assert [line["advantage"] for line in got["A"]] == pytest.approx([-0.5, -0.5, -0.5, 0, 1.5], rel=1e-5)
    assert [line["keep"] for line in got["A"]] == [True, True, True, False, True]
    assert [line["eligible"] for line in got["A"]] == [True, True, True, False, True]
    assert [line["peer_wins"] for line in got["B"]] == [3, 2, 0, 0, None]
    assert [line["reward"] for line in got["B"]] == [1, 0, 0, 0, None]
    assert [line["reward"] for line in got[3]] == [0, 0, 0]
    assert [line["reward"] for line in got["3"]] == [0, None, None]
    assert not any(line["keep"] for line in [*got[3], *got["3"]])


def test_random_groups_agree_with_plain_loops(run_vote: Vote) -> None:
    rng = random.Random(0)
    K, w, s, tau_w = 5, 3, 2, 3
    groups: list[list[list[float]]] = []
    for _ in range(200):
        values = [rng.choice([0, 1, 2, 3]) if rng.random() < 0.5 else rng.gauss(0, 1) for _ in range(40)]
        size = rng.randint(1, 9)
        groups.append([rng.choices(values, k=rng.choice([5, 10, 11, 12, 20, 31])) for _ in range(size)])
    rows = [(number, values) for number, group in enumerate(groups) for values in group]
    rng.shuffle(rows)
    settings = [f"num_windows={K}", f"window_size={w}", f"min_stride={s}", f"window_wins={tau_w}", "peer_win_rate=0.6"]
    lines = run_vote(rows, *settings)
    decided = 0
    for number in range(len(groups)):
        members = [i for i, (group, _) in enumerate(rows) if group == number]
        expected = oracle([rows[i][1] for i in members], K, w, s, tau_w, (3, 5))
        for i, verdict in zip(members, expected, strict=True):
            line = lines[i]
            if verdict is None:
                absent = {"eligible": False, "profile": None, "peer_wins": None, "reward": None, "advantage": 0.0}
                assert line == {"group": number, **absent, "keep": False}
            else:
                assert (line["peer_wins"], line["reward"], line["keep"]) == (verdict[0], verdict[1], verdict[3])
                assert line["advantage"] == pytest.approx(verdict[2], abs=1e-12)
                decided += verdict[3]
    assert decided > 100


def test_a_response_without_a_number_is_not_eligible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    tails = ["4", "null", "NaN", "Infinity", "-Infinity", "1e999"]
    file.write_text("".join(f'{{"group": "x", "certainty": [1, 2, 3, {tail}]}}\n' for tail in tails))
    assert main(["vote", str(file), *SMALL]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["eligible"] for line in lines] == [True, False, False, False, False, False]


def test_the_printed_defaults_are_the_rules() -> None:
    lines = [line for line in vote._KEYS.splitlines() if "=" in line.split()[0]]
    printed = dict(line.split()[0].split("=") for line in lines)
    defaults = {field.name: field.default for field in dataclasses.fields(FeedbackSettings)}
    assert {key: float(value) for key, value in printed.items()} == {key: float(defaults[key]) for key in printed}
    assert set(printed) == {"advantage_epsilon", *(field.name for field in dataclasses.fields(SIFRule))}
    assert set(vote._KEYS.splitlines()[-1].partition("):")[2].replace(",", " ").split()) <= set(defaults)


def test_any_rule_that_needs_only_certainties(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [("a", [1, 2]), ("b", [5]), ("a", [9, 9, 9]), ("a", [4]), ("b", [7, 7]), ("a", [None])]
    file.write_text("".join(json.dumps({"group": g, "certainty": c}) + "\n" for g, c in rows))
    assert main(["vote", str(file), "--rule", "top2", "num_top=1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["reward"] for line in lines] == [0, 0, 1, 0, 1, None]
    assert [line["keep"] for line in lines] == [True] * 5 + [False]
    assert all(line["profile"] is None for line in lines)  # shorter than a window of 100
    assert main(["vote", str(file), "--rule", "intuitor"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["reward"] for line in lines] == [1.5, 5, 9, 4, 7, None]
    possible = [name for name, rule in RULES.items() if not rule.reads and not rule.required]
    for name in possible:
        assert main(["vote", str(file), f"--rule={name}"]) == 0
    capsys.readouterr()
    assert main(["vote", str(file), "--rule", "rent"]) == 2
    assert f"'rent' also reads entropy_mean; rules that need no more: {', '.join(possible[:3])}" in (
        capsys.readouterr().err.replace(", and the file holds certainties only", "")
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return groups.length", "it returned Tensor, not a GroupOutcome"),
        ("pass", "it returned NoneType, not a GroupOutcome"),
        (
            "return standardise(groups.length.expand(1, 2), groups.usable.expand(1, 2), 0.0)",
            "its reward has the shape (1, 2), not (1, 1), a number per response",
        ),
    ],
)
def test_a_rule_that_returns_no_outcome_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, complaint: str
) -> None:
    rule, file = tmp_path / "mine.py", tmp_path / "rows.jsonl"
    rule.write_text(f"from sif_trainer.feedback.outcome import standardise\ndef mine(groups, settings):\n    {body}\n")
    file.write_text('{"group": 1, "certainty": [1, 1, 1, 1]}\n')
    assert main(["vote", str(file), "--rule", f"{rule}:mine"]) == 2
    assert capsys.readouterr().err.startswith(f"sif vote: error: feedback='{rule}:mine': {complaint}")


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_the_command_reads_standard_input(sif: Callable[..., Any], start: str) -> None:
    done = sif("vote", "-", *SMALL, input=start + '{"group": 1, "certainty": [1, 1, 1, 1]}\n')
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["profile"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("content", "settings", "complaint"),
    [
        ("", [], "no responses in it"),
        ('{"group": 1, "certainty": [1]}\n{"certainty": [1]}', [], "line 2: no 'group' in it"),
        ('{"group": 1}', [], "line 1: no 'certainty' in it"),
        ('{"group": 1, "certainty": 3}', [], "line 1: 'certainty' must be a list of numbers, not 3"),
        ('{"group": 1, "certainty": [1, "a"]}', [], "'certainty' must be a list of numbers, not 'a'"),
        ('{"group": 1, "certainty": [true]}', [], "'certainty' must be a list of numbers, not True"),
        (f'{{"group": 1, "certainty": [1{"0" * 400}]}}', [], "line 1: 'certainty' holds a number beyond 1e+100"),
        ('{"group": 1, "certainty": [1e308]}', [], "holds a number beyond 1e+100; variances would overflow"),
        ("{}", ["feedback=top2", "--rule", "sif"], "--rule sif and feedback=top2 both name the rule; leave one out"),
        ("{}", ["--rule", "{folder}/mine.py:Mine"], "Mine is a class, and a rule is a function from groups and"),
        ('{"group": [1], "certainty": []}', [], "'group' must be a text or a whole number, not [1]"),
        ("[]", [], "line 1: expected a JSON object"),
        ("{", [], "line 1: not JSON"),
        ("{}", ["window_wins=11"], "window_wins=11 is more than num_windows=10"),
        ("{}", ["window_wins=8.5"], "window_wins must be a whole number, not 8.5"),
        ("{}", ["window_size=0"], "window_size=0 must be at least 1"),
        ("{}", ["peer_win_rate=0"], "peer_win_rate=0.0 must lie in (0, 1]"),
        ("{}", ["tau_w=3"], "unknown key 'tau_w'"),
        ("{}", ["num_window=3"], "unknown key 'num_window'; did you mean 'num_windows'?"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, settings: list[str], complaint: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(content)
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    assert main(["vote", str(file), *(text.replace("{folder}", str(tmp_path)) for text in settings)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err and err.startswith("sif vote: error: ") and err.count("\n") == 1


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vote", "no-such-file.jsonl"]) == 2
    assert capsys.readouterr().err == "sif vote: error: no such file: no-such-file.jsonl\n"
