"""Completions by prompt: what is indexed, chosen, cut, and made visible."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import HOSTILE, make_run, sample

from sif_trainer.report.completions import MOST_CHARACTERS, Groups, spread, visible
from sif_trainer.report.kinds import KINDS, eval, train
from sif_trainer.report.page import write_page
from sif_trainer.report.run import Run, read_run
from sif_trainer.report.view import group_lines
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import Records


def groups_of(folder: Path, samples: list[dict]) -> Groups:
    return train.groups(read_run(make_run(folder / "run", samples)))


def test_groups_are_read_by_step_and_group(tmp_path: Path) -> None:
    samples = [sample(step, group, member) for step in (1, 11) for group in (0, 1) for member in (0, 1)]
    groups = groups_of(tmp_path, samples)
    assert len(groups) == 4
    third = groups[2]
    assert (third.where, third.id, third.prompt, third.window_wins) == ("step 11", "p0", "prompt 0", 3)
    assert [member.badge for member in third.members] == ["kept", "winner"]
    assert third.members[1].windows_won == [3, 0] and third.members[1].facts["peers beaten"] == "1"
    assert "with a winner" in third.tags and "with a winner at 0 by accuracy" in third.tags


def test_what_became_of_a_response_is_said(tmp_path: Path) -> None:
    lost = {"eligible": False, "keep": False, "profile": None, "windows_won": None, "peer_wins": None, "reward": None}
    samples = [sample(member=0, keep=False), sample(member=1, **lost)]
    group = groups_of(tmp_path, samples)[0]
    assert [member.badge for member in group.members] == ["not kept", "not eligible"]
    assert "with nothing kept" in group.tags and group.members[1].facts["reward"] == "-"


def test_a_response_that_is_shorter_than_a_window_has_no_profile(tmp_path: Path) -> None:
    short = {"profile": [None, None, None], "windows_won": None}  # of a rule that reads no windows
    run = read_run(make_run(tmp_path / "run", [sample(member=0, **short), sample(member=1)]))
    assert [member.profile for member in train.groups(run)[0].members] == [None, [3.0, 2.0, 2.0]]
    write_page([run], tmp_path / "page.html")
    assert len(list(group_lines(train.groups(run)[0]))) > 3


def test_a_name_that_looks_like_a_record_is_none(tmp_path: Path) -> None:
    groups = groups_of(tmp_path, [sample(group=3, id='x", "group": 9, "'), sample(group=3, member=1)])
    assert len(groups) == 1 and len(groups[0].members) == 2


def test_a_line_that_is_still_written_is_left_for_later(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", [sample(), sample(member=1)]))
    path = run.path / "samples.jsonl"
    with path.open("a") as file:
        file.write('{"step": 2, "id": "p", "group": 0, "prom')
    assert len(train.groups(run)) == 1
    with path.open("a") as file:
        file.write("\nno record\n")
    with pytest.raises(UserError, match=r"samples.jsonl, byte \d+: no record of a completion"):
        train.groups(run)


def test_tokens_are_shown_only_where_they_are_the_text(tmp_path: Path) -> None:
    whole = {"text": "a b", "tokens": ["a", " b"], "token_certainty": [1.0, 2.0]}
    parts, lost = {**whole, "tokens": ["a", "b"]}, {**whole, "token_certainty": [None, 1.0]}
    samples = [sample(**whole), sample(member=1, **parts), sample(member=1, **lost)]
    members = groups_of(tmp_path, samples)[0].members
    assert members[0].tokens == ["a", " b"] and members[0].certainty == [1.0, 2.0]
    assert all(member.tokens == () and member.text == "a b" for member in members[1:])


def test_long_texts_are_cut_and_the_rest_is_counted(tmp_path: Path) -> None:
    text = "word " * 10_000
    tokens = ["word "] * 10_000
    records = [
        sample(text=text, prompt=text),
        sample(member=1, text=text, tokens=tokens, token_certainty=[1.0] * 10_000),
    ]
    group = groups_of(tmp_path, records)[0]
    plain, shaded = group.members
    assert group.prompt.endswith("… 30,000 more characters")
    assert len(plain.text) == MOST_CHARACTERS and plain.num_cut == shaded.num_cut == len(text) - MOST_CHARACTERS
    assert "".join(shaded.tokens) == plain.text and len(shaded.certainty) == len(shaded.tokens)


def test_the_samples_of_an_evaluation_stand_by_problem_and_number(tmp_path: Path) -> None:
    record = {"benchmark": "b", "score": 1.0, "verdict": "correct", "answer": "4", "why": "same text", "boxed": True,
              "text": "so 4", "num_tokens": 3, "finish_reason": "stop"}  # fmt: skip
    for name, numbers in {"samples": (1, 0), "samples.rank1": (0, 2)}.items():
        records = Records(tmp_path / f"{name}.jsonl")
        for number in numbers:
            records.append({"benchmark": "b", "id": "7", "sample": number, **record})
    Records(tmp_path / "prompts.jsonl").append({"benchmark": "b", "id": "7", "prompt": "2 + 2", "gold": "4"})
    (group,) = eval.groups(Run(tmp_path, "run", {}))
    assert (group.where, group.id, group.prompt) == ("b", "7, reference 4", "2 + 2")
    assert [member.badge for member in group.members] == ["correct"] * 3  # a sample of two processes counts once


@pytest.mark.parametrize("name", ["probe", "adap"])
def test_the_prompts_of_a_probe_and_of_a_search_are_shown(runs: dict[str, Path], name: str) -> None:
    groups = KINDS[name].groups(read_run(runs[name]))
    shown = [groups[k].prompt for k in range(len(groups))]
    assert len(set(shown)) == len(shown) == 6 and all(len(prompt) > 20 for prompt in shown)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(0, 1000))
def test_what_is_chosen_fits_and_is_spread(sizes: list[int], budget: int) -> None:
    groups = Groups(make=lambda records: None, places=[[] for _ in sizes], sizes=sizes)
    chosen = spread(groups, budget)
    assert chosen == sorted(set(chosen)) and sum(sizes[k] for k in chosen) <= budget
    if sum(sizes) <= budget:
        assert chosen == list(range(len(sizes)))
    elif sizes[0] + sizes[-1] <= budget and len(sizes) > 1:
        assert {0, len(sizes) - 1} <= set(chosen)
    left = [size for k, size in enumerate(sizes) if k not in chosen]
    assert not left or sum(sizes[k] for k in chosen) + min(left) > budget  # nothing that fits is left out


def test_a_choice_leaves_no_part_of_the_run_out() -> None:
    groups = Groups(make=lambda records: None, places=[[]] * 1000, sizes=[1] * 1000)
    chosen = spread(groups, 50)
    assert max(b - a for a, b in pairwise(chosen)) <= 60


@pytest.mark.parametrize("name", ["control", "direction", "surrogate"])
def test_what_would_steer_is_spelled_out(name: str) -> None:
    shown = visible(HOSTILE[name])
    assert shown.encode("utf-8") and not any(character in shown for character in "\x00\x07\x1b\x9b\u202e\u2066\u200f")
    assert visible("a\n\tb é 你好 👩‍🚀") == "a\n\tb é 你好 👩‍🚀"
