from __future__ import annotations

import json
import random
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.records import Records
from sif_trainer.systems.jointcore import JointCore, read_archive
from sif_trainer.systems.jointcore.judges import CommandJudge, PolicyJudge, load_function
from sif_trainer.systems.jointcore.select import METHODS, budget_advice, group_questions
from sif_trainer.systems.jointcore.select_run import SelectConfig, describe, select_file


def archive(n=6, needed=()):
    return [
        {"id": f"m{i}", "text": f"note {i}", "cost": 1 + i % 3, "relevance": (i in needed) + i / 100} for i in range(n)
    ]


def needs(*ids):
    return lambda kept: "yes" if set(ids) <= {record["id"] for record in kept} else "no"


def write(path, records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def start(folder, config):
    return RunFolder.open(folder, command="jointcore select", config=vars(config))


@pytest.mark.parametrize("method", METHODS)
def test_keeps_what_the_decision_needs_and_proves_it(method):
    result = JointCore(archive(20), needs("m3", "m11"), method=method).select()
    assert result.kept == ["m3", "m11"] == result.refused
    assert result.certified and result.deterministic and result.monotone and not result.exhausted
    assert (result.decision, result.cost, result.num_records) == ("yes", 1 + 3, 20)


@given(st.integers(1, 40), st.data())
def test_queries_count_every_first_answer_of_the_judge(n, data):
    needed = data.draw(st.sets(st.integers(0, n - 1), max_size=5))
    calls = []

    def judge(kept):
        calls.append(len(kept))
        return {f"m{i}" for i in needed} <= {record["id"] for record in kept}

    result = JointCore(archive(n, needed), judge).select()
    assert set(result.kept) == {f"m{i}" for i in needed} and result.certified
    reference_counted = len(needed) == n
    assert len(calls) == 1 + result.num_queries + result.num_rechecks or reference_counted


def test_the_records_are_handed_over_in_their_order_and_never_altered():
    records = archive(9)
    before = json.dumps(records)

    def judge(kept):
        places = [int(record["id"][1:]) for record in kept]
        assert places == sorted(places)
        return 4 in places

    JointCore(records, judge).select()
    assert json.dumps(records) == before


def test_a_judge_that_ignores_the_records_is_told_so():
    result = JointCore(archive(5), lambda kept: "always").select()
    assert result.kept == [] and result.certified
    assert "does not rest on them" in describe(result.to_json() | {"num_noisy": 0})


def test_a_judge_that_changes_its_mind_is_found_out():
    rng = random.Random(1)
    result = JointCore(archive(16), lambda kept: rng.random() < 0.5).select()
    assert not result.deterministic and not result.certified
    assert result.contradictions
    assert "not deterministic" in describe(result.to_json() | {"num_noisy": 0})


def test_a_judge_that_is_not_monotone_is_searched_again_and_still_certified():
    def judge(kept):  # m1 alone suffices, unless m2 is there without m3
        ids = {record["id"] for record in kept}
        return "m1" in ids and not ("m2" in ids and "m3" not in ids)

    for method in METHODS:
        result = JointCore(archive(8, {1, 2}), judge, method=method).select()
        assert result.certified and judge([{"id": i} for i in result.kept])


@given(st.integers(1, 8), st.integers(1, 20), st.sampled_from(METHODS), st.data())
def test_any_judge_gets_a_true_certificate_or_none(n, budget, method, data):
    """The judge's answers are drawn at random per set, so it need not be monotone; only what it said is claimed."""
    table = data.draw(st.lists(st.booleans(), min_size=2**n, max_size=2**n))

    def judge(kept):
        return table[sum(1 << int(record["id"][1:]) for record in kept)]

    result = JointCore(archive(n), judge, method=method, budget=budget).select()
    kept = [record for record in archive(n) if record["id"] in result.kept]
    assert judge(kept) == judge(archive(n))
    assert result.deterministic and result.num_queries <= budget
    if result.certified:
        for gone in kept:
            assert judge([record for record in kept if record is not gone]) != judge(archive(n))


def test_a_budget_that_ends_early_keeps_a_sufficient_set_and_claims_nothing():
    needed = {f"m{i}" for i in range(0, 30, 4)}
    judge = needs(*needed)
    for budget in range(1, 30):
        result = JointCore(archive(30), judge, budget=budget).select()
        assert needed <= set(result.kept)
        assert result.num_queries <= budget
        if result.certified:
            assert set(result.kept) == needed


def test_a_hundred_thousand_records_in_bounded_memory():
    needed = {17, 40_000, 99_999}
    records = [{"id": i, "text": "t", "cost": 1, "relevance": (i in needed) + i % 7 / 8} for i in range(100_000)]
    tracemalloc.start()
    result = JointCore(records, lambda kept: needed <= {record["id"] for record in kept}).select()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.kept == sorted(needed) and result.certified
    assert result.num_queries < 12
    assert peak < 50e6
    advice = budget_advice(100_000, 256)
    assert "100,000 records" in advice and "1: 35, 4: 127" in advice and "any 8 needed records" in advice


@given(st.integers(1, 200), st.data())
def test_the_advertised_number_of_questions_is_never_exceeded(n, data):
    needed = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=6))
    result = JointCore(
        archive(n), needs(*(f"m{i}" for i in needed)), method="jointcore_legacy", budget=10_000
    ).select()
    assert result.num_queries <= group_questions(n, len(needed)) + len(needed)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a", "text": "x", "cost": 1, "relevance": 0}', "line 2: id 'a' was given in line 1"),
        (
            '{"id": "b", "text": "x", "cost": -1, "relevance": 0}',
            r"line 2 \(id 'b'\): 'cost' is -1; it must not be negative",
        ),
        ('{"id": "b", "text": "x", "relevance": 0}', r"line 2 \(id 'b'\): 'cost' must be a number, not None"),
        ('{"id": "b", "text": "x", "cost": 1e999, "relevance": 0}', "'cost' must be a number, not inf"),
        ('{"id": "b", "text": "x", "cost": 1}', "'relevance' must be a number"),
        ('{"id": "b", "text": " ", "cost": 1, "relevance": 0}', "'text' must be a text that is not empty"),
        ('{"id": null, "text": "x", "cost": 1, "relevance": 0}', "'id' must be a text or a whole number"),
        ("{", "line 2: not JSON"),
    ],
)
def test_a_bad_record_is_named_with_its_line(tmp_path, line, message):
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "a", "text": "x", "cost": 1, "relevance": 0}\n' + line + "\n")
    with pytest.raises(UserError, match=message):
        read_archive(path)


def test_an_empty_archive_is_refused(tmp_path):
    (tmp_path / "r.jsonl").write_text("\n")
    with pytest.raises(UserError, match="no records in it"):
        read_archive(tmp_path / "r.jsonl")
    with pytest.raises(UserError, match="no records to select from"):
        JointCore([], needs())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("raise SystemExit(3)", "exited with status 3"),
        ("1 / 0", "exited with status 1, saying 'ZeroDivisionError: division by zero'"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        ("import time; time.sleep(60)", "gave no answer within 0.5 seconds"),
    ],
)
def test_a_command_that_crashes_or_hangs_is_no_decision(tmp_path, script, message):
    (tmp_path / "judge.py").write_text(script)
    judge = CommandJudge(f"{sys.executable} {tmp_path / 'judge.py'}", timeout=0.5 if "sleep" in script else 20)
    with pytest.raises(UserError, match=message):
        judge(archive(3))


def test_a_crash_on_a_subset_is_counted(tmp_path):
    script = 'import sys\nif "m2" not in sys.stdin.read(): raise ValueError("no m2")'
    (tmp_path / "judge.py").write_text(script)
    config = SelectConfig(command=f"{sys.executable} {tmp_path / 'judge.py'}")
    summary = select_file(write(tmp_path / "r.jsonl", archive(4)), start(tmp_path / "run", config), config, tell=print)
    assert summary["kept"] == ["m2"] and summary["num_noisy"] > 0
    assert "did the judge crash?" in describe(summary)


def test_commands_that_cannot_start_are_refused():
    with pytest.raises(UserError, match="command is empty"):
        CommandJudge("  ")
    with pytest.raises(UserError, match="cannot start the judge"):
        CommandJudge("/no/such/program")(archive(1))


def test_a_run_goes_on_without_asking_twice(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(
        "calls = []\n"
        "def decide(kept):\n"
        "    calls.append(len(kept))\n"
        "    if len(calls) == 4: raise ValueError('disk on fire')\n"
        "    return {'m1', 'm7'} <= {record['id'] for record in kept}\n"
    )
    config = SelectConfig(function=f"{tmp_path / 'own.py'}:decide", method="jointcore_cost_ordered")
    file = write(tmp_path / "r.jsonl", archive(12))
    with pytest.raises(UserError, match="raised ValueError: disk on fire"):
        select_file(file, start(tmp_path / "run", config), config, tell=print)
    assert len(list(Records(tmp_path / "run" / "answers.jsonl"))) == 3
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text().replace("== 4", "== -1"))
    summary = select_file(file, start(tmp_path / "run", config), config, tell=print)
    straight = select_file(file, start(tmp_path / "other", config), config, tell=print)
    assert summary == straight and summary["kept"] == ["m1", "m7"]
    kept = list(Records(tmp_path / "run" / "kept.jsonl"))
    assert kept == [record for record in archive(12) if record["id"] in ("m1", "m7")]
    questions = [answer["question"] for answer in Records(tmp_path / "run" / "answers.jsonl")]
    assert len(questions) == len(set(questions)) == summary["num_queries"] + 1


def test_a_changed_archive_is_not_mixed_with_old_answers(tmp_path):
    (tmp_path / "own.py").write_text("def decide(kept): return 'm1' in {record['id'] for record in kept}\n")
    config = SelectConfig(function=f"{tmp_path / 'own.py'}:decide")
    select_file(write(tmp_path / "r.jsonl", archive(5)), start(tmp_path / "run", config), config, tell=print)
    write(tmp_path / "r.jsonl", archive(6))
    with pytest.raises(UserError, match="has changed since"):
        select_file(tmp_path / "r.jsonl", start(tmp_path / "run", config), config, tell=print)


@pytest.mark.parametrize("name", ["decide", "own.py:", "no_such_module:f", "json:no_such_name", "json:__name__"])
def test_a_function_that_cannot_be_found_is_named(name):
    with pytest.raises(UserError, match=f"'{name}'"):
        load_function(name)


def test_a_function_must_return_a_decision(tmp_path):
    (tmp_path / "own.py").write_text("def decide(kept): return None\n")
    with pytest.raises(UserError, match="returned None; a decision is a text, a number or a boolean"):
        load_function(f"{tmp_path / 'own.py'}:decide")(archive(1))


def test_a_policy_decides_by_its_likeliest_label():
    policy = ScriptedPolicy(
        scores={"badge is valid": {"LET IN": -3.0, "REFUSE": -2.0}, "": {"LET IN": -5.0, "REFUSE": -1.0}}
    )
    judge = PolicyJudge(policy, "May she enter?", ("LET IN", "REFUSE"))
    records = archive(5)
    records[3] = {**records[3], "text": "Her badge is valid."}
    result = JointCore(records, judge).select()
    assert (result.decision, result.kept, result.certified) == ("LET IN", ["m3"], True)


def test_labels_that_share_their_first_token_are_refused():
    with pytest.raises(UserError, match="'LET IN' and 'LET OUT' start with the same token"):
        PolicyJudge(ScriptedPolicy(), "?", ("LET IN", "LET OUT"))
    with pytest.raises(UserError, match="at least two labels"):
        PolicyJudge(ScriptedPolicy(), "?", ("YES",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "not none of them"),
        ({"command": "a", "model": "b"}, "not command and model"),
        ({"model": "scripted:x.json"}, "needs a question"),
        ({"command": "a", "timeout": 0.0}, "more than 0 seconds"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SelectConfig(**settings)


@pytest.mark.parametrize(("settings", "message"), [({"method": "gallop"}, "galloping"), ({"budget": 0}, "at least 1")])
def test_a_search_that_cannot_be_made_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        JointCore(archive(), needs(), **settings)
