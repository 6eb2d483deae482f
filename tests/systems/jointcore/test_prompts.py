from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from sif_trainer.systems.jointcore.literal import shown_truth
from sif_trainer.systems.jointcore.memory import mask_of
from sif_trainer.systems.jointcore.prompts import (
    LABELS,
    OMISSIONS,
    Question,
    TerminalQuestion,
    meanings,
    messages,
    options,
    shown_records,
)


def support_subsets(tasks):
    for task in tasks:
        for k in range(len(task.support) + 1):
            yield from ((task, mask_of(ids)) for ids in combinations(task.support, k))


def test_the_shown_records_and_the_oracle_part_where_the_published_modes_are_at_fault(model):
    differences = Counter()
    for task, kept in support_subsets(model):
        for omission in OMISSIONS:
            question = Question(task, kept, omission)
            differences[task.family, omission, "ours"] += shown_truth(question) != task.sufficient(kept)
            differences[task.family, omission, "vacuous"] += shown_truth(question, vacuous=True) != task.sufficient(
                kept
            )
    assert {key: number for key, number in differences.items() if number} == {
        ("synergy_xor", "counterfactual", "ours"): 96,
        ("synergy_xor", "counterfactual", "vacuous"): 96,
        ("multiple_minimal_sets", "deletion", "vacuous"): 240,
        ("harmful_stale", "deletion", "vacuous"): 72,
    }


@pytest.mark.parametrize("omission", OMISSIONS)
def test_every_omitted_record_is_altered_and_no_other(model, omission):
    for task in model[::50]:
        kept = mask_of(range(0, 16, 3))
        shown = {record.id: record for record in shown_records(Question(task, kept, omission))}
        for record in task.records:
            if kept >> record.id & 1:
                assert shown[record.id] == record
            elif omission == "deletion":
                assert record.id not in shown
            else:
                assert shown[record.id]._replace(value=record.value) == record
                assert shown[record.id].value != record.value
        assert list(shown) == [i for i in task.display_order if i in shown]


def test_counterfactual_values(model):
    values = {
        record.value: shown.value
        for task in model[::5]
        for record, shown in zip(
            (task.records[i] for i in task.display_order),
            shown_records(Question(task, 0, "counterfactual")),
            strict=True,
        )
        if not record.value.startswith("NOTE")
    }
    assert values.pop("ALLOW") == "BLOCK" and values.pop("BLOCK") == "ALLOW"
    assert values.pop("ON") == "OFF" and values.pop("OFF") == "ON"
    assert set(values.values()) == {"INVALID"}


def test_a_prompt_holds_what_it_must(model):
    for task in model[::31]:
        for labels, names in LABELS.items():
            system, user = messages(Question(task, task.full, labels=labels))
            assert (system["role"], user["role"]) == ("system", "user")
            lines = user["content"].split("\n")
            assert task.condition.domain.replace("_", "-") in lines[0] and str(task.condition.horizon) in lines[0]
            listed = [line for line in lines if line.startswith("m") and " | " in line]
            assert [int(line.split(" | ")[0][1:]) for line in listed] == task.display_order
            assert all(
                " | ".join(task.records[i][1:4]) in line for i, line in zip(task.display_order, listed, strict=True)
            )
            assert all(name in lines[-1] for name in names)
            assert all(value in user["content"] for value in ("UNKNOWN", "PENDING", "INVALID"))
            if labels == "boolean":
                assert "EXECUTE" not in user["content"] and "HOLD" not in user["content"]


def test_labels_mean_what_the_hashes_say(model):
    first = Counter()
    for task in model:
        assert meanings(Question(task, 0))["YES"] == task.action_when_sufficient
        assert meanings(Question(task, 0))["NO"] == task.action_when_insufficient
        assert meanings(Question(task, 0, labels="direct")) == {"EXECUTE": "EXECUTE", "HOLD": "HOLD"}
        ab = meanings(Question(task, 0, labels="ab"))
        assert list(ab) == ["A", "B"] and set(ab.values()) == {"EXECUTE", "HOLD"}
        first[ab["A"]] += 1
        assert meanings(TerminalQuestion(task, "EXECUTE")) == {"COMMIT": "COMMIT", "HALT": "HALT"}
        assert set(meanings(TerminalQuestion(task, "HOLD", "ab")).values()) == {"COMMIT", "HALT"}
    assert min(first.values()) > 180


def test_a_terminal_prompt_states_the_decision_and_the_labels(model):
    for labels in LABELS:
        question = TerminalQuestion(model[3], "INVALID", labels)
        text = messages(question)[1]["content"]
        assert "INVALID" in text and all(name in text for name in options(question))
