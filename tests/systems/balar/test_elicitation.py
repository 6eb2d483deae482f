from __future__ import annotations

import json

import pytest

from sif_trainer.policy import Sampling
from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar import BalarConfig, Case, Dimension, Question, User
from sif_trainer.systems.balar.elicitation import NoValidReply, PolicyElicitor
from sif_trainer.systems.balar.labels import LabelElicitor
from sif_trainer.systems.balar.parts import Exchange, Triple

DOOR = Dimension("the door", ("open", "shut", "broken"))
CLOCK = Dimension("the clock", ("right", "wrong"))
HEARD = Question("What did you hear?", ("a bang", "nothing"))
SEEN = Question("What did you see?", ("a cat", "a man", "smoke"))


@pytest.fixture
def agent(scripted_agent):
    return scripted_agent.ScriptedAgent()


@pytest.fixture
def policy(agent):
    return ScriptedPolicy(agent, agent.score, identity="agent")


@pytest.fixture
def elicitor(policy):
    return PolicyElicitor(policy, BalarConfig(num_dimensions=3, num_questions=3, max_values=3, max_choices=4))


def triples(case):
    return [
        Triple(question, user, dimension)
        for question in (HEARD, SEEN)
        for user in case.users
        for dimension in (DOOR, CLOCK)
    ]


def batches_of(policy):
    """Count the batches that reach the policy from now on."""
    sent = []
    stream = policy._stream

    def counting(requests, sampling, schema):
        sent.append(len(requests))
        return stream(requests, sampling, schema)

    policy._stream = counting
    return sent


def test_each_stage_is_one_batch_whatever_the_sizes_of_its_tables(elicitor, policy, case):
    sent = batches_of(policy)
    priors = elicitor.priors(case, [DOOR, CLOCK], ())
    tables = elicitor.tables(case, triples(case), ())
    answers = elicitor.answer_tables(case, [DOOR, CLOCK])
    assert sent == [5, 8, 2]
    assert [len(row.probabilities) for row in priors] == [3, 2]
    assert [(len(t), len(t[0].probabilities)) for t in tables] == [(3, 2), (2, 2)] * 2 + [(3, 3), (2, 3)] * 2
    assert [(len(t), len(t[0].probabilities)) for t in answers] == [(3, 3), (2, 3)]
    assert elicitor.tables(case, [], ()) == []


def test_labels_become_normalised_rows_with_their_reasons(elicitor, agent, case):
    labels = iter(["likely", "neutral", "unlikely"])
    agent.overrides["priors"] = lambda text, number: {"reason": "so", "label": next(labels)}
    (row,) = elicitor.priors(case, [DOOR], ())
    assert row.probabilities == pytest.approx((0.8 / 1.5, 0.5 / 1.5, 0.2 / 1.5))
    assert row.labels == ("likely", "neutral", "unlikely") and row.reasons == ("so",) * 3


def test_the_weights_of_labels_are_settings(policy, agent, case):
    agent.overrides["priors"] = lambda text, number: {"reason": "", "label": "likely"}
    agent.overrides["soft_map"] = lambda text, number: {
        "choices": [{"choice": c, "reason": "r", "label": ("likely", "unlikely")[c - 1]} for c in (2, 1)]
    }
    agent.overrides["priors"] = None
    row = PolicyElicitor(policy, BalarConfig(likely=0.9, unlikely=0.1)).soft_map(case, HEARD, "a loud bang")
    assert row.probabilities == pytest.approx((0.9, 0.1)), "cells are placed by their numbers"


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (lambda cells: cells[:-1], "value 3 and choice 2 is missing"),
        (lambda cells: [*cells[:-1], cells[0]], "value 1 and choice 1 is repeated"),
        (lambda cells: [*cells[:-1], {**cells[-1], "choice": 3}], "value 3 and choice 2 is missing"),
        (lambda cells: [*cells, {**cells[-1], "choice": 3}], "value 3 and choice 3 does not exist"),
    ],
)
def test_a_faulty_table_is_asked_for_again_with_what_is_wrong(elicitor, agent, policy, case, fault, complaint):
    """Only that one; in a batch with smaller and larger tables the schema cannot tell, and the check must."""

    def reply(text, number):
        cells = agent.tables(text)["cells"]
        faulty = "What is not known is the door" in text and "is asked: What did you hear" in text
        return {"cells": fault(cells) if faulty and "A check found this" not in text else cells}

    agent.overrides["tables"] = reply
    ada = case.users[0]
    found = elicitor.tables(case, [Triple(HEARD, ada, DOOR), Triple(HEARD, ada, CLOCK), Triple(SEEN, ada, DOOR)], ())
    assert len(agent.calls) == 4 and complaint in agent.calls[3][1]
    assert policy.counters.num_invalid_replies == 1
    assert [len(table) for table in found] == [3, 2, 3]


def test_broken_json_for_ever_ends_with_what_to_do_after_the_last_attempt(elicitor, agent, policy, case):
    agent.overrides["priors"] = lambda text, number: '{"reason": "it goes on and on'
    with pytest.raises(NoValidReply, match=r"case 'c-1': no valid reply for its priors in 10 attempts .*label_only"):
        elicitor.priors(case, [CLOCK], ())
    assert len(agent.calls) == policy.counters.num_invalid_replies == 20


def test_a_reply_that_never_suits_its_question_ends_after_as_many_attempts(elicitor, agent, policy, case):
    agent.overrides["dimensions"] = lambda text, number: {
        "dimensions": [{"reason": "r", "name": "same", "values": ["x", " X "]}]
    }
    with pytest.raises(UserError, match="no fact has a new name and two different values"):
        elicitor.dimensions(case)
    assert len(agent.calls) == policy.counters.num_invalid_replies == 10


def test_prose_around_json_is_repaired(elicitor, agent, case):
    agent.overrides["priors"] = lambda text, number: (
        'Sure!\n```json\n{"reason": "r", "label": "likely",}\n```' if number else "I think it is likely."
    )
    (row,) = elicitor.priors(case, [CLOCK], ())
    assert row.labels == ("likely", "likely") and len(agent.calls) == 4


def test_duplicates_are_merged_and_counted(elicitor, agent, case):
    agent.overrides["dimensions"] = lambda text, number: {
        "dimensions": [
            {"reason": "r", "name": "The Door", "values": ["open", "Open ", "shut"]},
            {"reason": "r", "name": "the  door", "values": ["locked", "free"]},
            {"reason": "r", "name": "the clock", "values": ["wrong", "WRONG"]},
        ]
    }
    assert elicitor.dimensions(case) == [Dimension("The Door", ("open", "shut"), "r")]
    assert elicitor.counts["num_merged"] == 1 + 2 + 1
    agent.overrides["new_questions"] = lambda text, number: {
        "questions": [
            {"reason": "r", "text": text, "choices": choices}
            for text, choices in [("what did you HEAR?", ["x", "y"]), ("Why?", ["x", "X"]), ("How?", ["x", "y", "x"])]
        ]
    }
    found = elicitor.new_questions(case, [DOOR], [HEARD], ())
    assert found == [Question("How?", ("x", "y"), "r")]


def test_a_new_dimension_is_unlike_the_known_ones(elicitor, agent, case):
    replies = iter(["the CLOCK", "the dog"])
    agent.overrides["new_dimension"] = lambda text, number: {
        "reason": "r", "name": next(replies), "values": ["a", "b"]
    }  # fmt: skip
    log = [Exchange(HEARD, case.users[0], "a bang")]
    assert elicitor.new_dimension(case, [DOOR, CLOCK], log).name == "the dog"
    assert "was asked: What did you hear? The answer: a bang" in agent.calls[0][1]


def test_two_choices_at_most_are_yes_and_no(policy, case):
    elicitor = PolicyElicitor(policy, BalarConfig(num_questions=3, max_choices=2))
    assert {question.choices for question in elicitor.questions(case, [DOOR])} == {("yes", "no")}


def test_every_array_and_token_count_is_bounded(elicitor, policy, case):
    seen = []
    reply = policy.reply

    def watching(prompts, schema, sampling, **options):
        seen.append((schema, sampling))
        return reply(prompts, schema, sampling, **options)

    policy.reply = watching
    elicitor.dimensions(case)
    elicitor.priors(case, [DOOR], ())
    elicitor.questions(case, [DOOR])
    elicitor.tables(case, triples(case), ())
    elicitor.answer_tables(case, [DOOR])
    elicitor.soft_map(case, HEARD, "a bang")
    elicitor.new_dimension(case, [DOOR], ())
    elicitor.final_answer(case, [(DOOR, "open")], ())

    def arrays(schema):
        if isinstance(schema, dict):
            if schema.get("type") == "array":
                yield schema
            for part in schema.values():
                yield from arrays(part)

    assert len(seen) == 8
    found = [array for schema, _ in seen for array in arrays(schema)]
    assert len(found) == 8 and all(array["maxItems"] <= 9 for array in found)
    assert all(sampling.max_tokens <= 1000 and sampling.temperature == 0.1 for _, sampling in seen)
    for schema, _ in seen:
        names = json.dumps(schema)
        if '"label"' in names:
            assert names.index('"reason"') < names.index('"label"'), "the reason comes before what it supports"


def test_the_verifier_redoes_a_faulty_table_once_without_checking_it_again(agent, policy, case):
    agent.overrides["verdict"] = lambda text, number: {
        "feedback": "the second reason is invented", "is_valid": "What is not known is the clock" not in text
    }  # fmt: skip
    agent.overrides["tables"] = lambda text, number: (
        {"cells": [{**cell, "label": "likely"} for cell in agent.tables(text)["cells"]]}
        if "the second reason is invented" in text
        else None
    )
    elicitor = PolicyElicitor(policy, BalarConfig(verifier=True))
    found = elicitor.tables(case, triples(case)[:2], ())
    assert agent.counts == {"tables": 3, "verdict": 2}
    assert (elicitor.counts["num_verified"], elicitor.counts["num_corrected"]) == (2, 1)
    redo = agent.calls[-1][1]
    assert "the second reason is invented" in redo and '"reason": "reason 2 2"' in redo
    assert {label for row in found[1] for label in row.labels} == {"likely"} and len(found[0]) == 3


def test_a_final_answer_is_an_option_where_there_are_some(elicitor, agent, case, puzzle):
    agent.overrides["final"] = lambda text, number: {"reason": "r", "option": 3} if "cat" in text else None
    assert elicitor.final_answer(case, [(DOOR, "open")], ()) == "the cat"
    assert elicitor.final_answer(puzzle, [(DOOR, "open")], ()) == "a butler"


# The label-only mode.


def labels_of(policy, **options):
    return LabelElicitor(policy, BalarConfig(num_dimensions=3, num_questions=3, max_choices=3), **options)


def test_labels_are_the_likeliest_after_a_reason(agent, policy, case):
    agent.overrides["line"] = lambda text, number: "- because of\nthe weather"
    elicitor = labels_of(policy)
    (row,) = elicitor.priors(case, [DOOR], ())
    assert row.labels == ("likely",) * 3 and row.reasons == ("because of",) * 3
    assert policy.counters.num_calls == 6
    assert all("Reason: because of\nWhich label fits?" in text for text in agent.scored)
    policy.scores = lambda text, label: {"likely": -2.1, "neutral": -2.0, "unlikely": -2.2}[label]
    policy.label_tokens = lambda labels: [(1,), (2,), (3, 4)]  # the longer label gains nothing by its length
    assert elicitor.priors(case, [CLOCK], ())[0].labels == ("neutral",) * 2


def test_without_reasons_each_cell_is_one_score_and_all_are_one_batch(agent, policy, case):
    tables = labels_of(policy, reason_tokens=0).tables(case, triples(case), ())
    assert agent.calls == [] and policy.counters.num_calls == 2 * 2 * (3 + 2) + 3 * 2 * (3 + 2)
    assert [(len(t), len(t[0].probabilities)) for t in tables] == [(3, 2), (2, 2)] * 2 + [(3, 3), (2, 3)] * 2


def test_a_model_of_blank_lines_still_gets_values_and_questions_but_no_dimension(agent, policy, case):
    agent.overrides["line"] = lambda text, number: " \n - \n"
    elicitor = labels_of(policy)
    with pytest.raises(NoValidReply, match="named no unknown fact"):
        elicitor.dimensions(case)
    assert policy.counters.num_invalid_replies == 3
    found = elicitor.questions(case, [DOOR, CLOCK])
    assert [question.text for question in found] == ["About the door: is it open?", "About the clock: is it right?"]
    assert elicitor.new_dimension(case, [DOOR], ()) is None
    agent.overrides["line"] = lambda text, number: "whether it rained" if "Name one unknown" in text else ""
    assert elicitor.dimensions(case) == [Dimension("whether it rained", ("true", "not true"))]
    assert elicitor.counts["num_fallbacks"] == 2


def test_lines_are_drawn_with_different_numbers_and_merged(agent, policy, case):
    agent.overrides["line"] = lambda text, number: f'{number}. "Item {number % 2}"'
    elicitor = labels_of(policy)
    assert [dimension.values for dimension in elicitor.dimensions(case)] != []
    names = [text for _, text in agent.calls if "Name one unknown" in text]
    assert len(names) == 3


def test_label_only_final_answers(agent, policy, case, puzzle):
    policy.scores = lambda text, label: {"1": -3.0, "2": -1.0, "3": -2.0}[label]
    elicitor = labels_of(policy)
    assert elicitor.final_answer(case, [(DOOR, "open")], ()) == "Ben"
    agent.overrides["line"] = lambda text, number: "The wall is a mirror."
    assert elicitor.final_answer(puzzle, [(DOOR, "open")], ()) == "The wall is a mirror."


def test_label_only_has_no_verifier(policy):
    with pytest.raises(UserError, match="verifier"):
        LabelElicitor(policy, BalarConfig(verifier=True))


# Bad input.


@pytest.mark.parametrize(
    ("options", "message"),
    [(("one",), "answer set of 1"), (("a", "b", " A "), "has the option twice: 'a'"), (("a", " "), "empty option")],
)
def test_answer_sets_that_are_none(options, message):
    with pytest.raises(UserError, match=message):
        Case("c", "Who?", "", (User("Ada", "a gardener"),), options)


def test_users_without_public_text_or_with_one_name(case):
    with pytest.raises(UserError, match="'Ada' has no public text"):
        User("Ada", " ")
    with pytest.raises(UserError, match="two users named 'ada'"):
        Case("c", "Who?", "", (User("Ada", "a gardener"), User("ada ", "a cook")))
    with pytest.raises(UserError, match="no user"):
        Case("c", "Who?", "", ())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0; it must be above 0 and below 1"),
        ({"alpha": 1.0}, "alpha"),
        ({"beta": 0.0}, "beta is 0.0"),
        ({"beta": 1.5}, "beta"),
        ({"max_choices": 1}, "max_choices is 1; it must be 2 or more"),
        ({"kappa": -1.0}, "kappa"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(UserError, match=message):
        BalarConfig(**settings)


def test_sampling_is_the_callers(policy, agent, case):
    elicitor = PolicyElicitor(policy, BalarConfig(), Sampling(temperature=0.0, seed=5))
    elicitor.priors(case, [CLOCK], ())
    assert elicitor.sampling.seed == 5
