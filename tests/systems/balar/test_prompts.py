from __future__ import annotations

import inspect
import re
import typing

import pytest

from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.systems.balar import BalarConfig, Case, Dimension, Private, Question, User, labels, prompts, run_case
from sif_trainer.systems.balar import elicitation as structured
from sif_trainer.systems.balar.parts import Elicitor, Exchange, Row, Triple

SECRET = "the xylophone was hidden in the attic"
DOOR = Dimension("the door", ("open {0}", "shut"))
HEARD = Question("What did you hear, {name}?", ("a bang", "nothing"))


class Simulator:
    """Knows a private text and answers by it; with a slip of the tongue it would be in a prompt."""

    def __init__(self):
        self.story = Private(SECRET)
        self.num_asked = 0

    def ask(self, case, user, question, free):
        self.num_asked += 1
        return question.choices[len(self.story.reveal()) % 2]


@pytest.fixture
def log(case):
    return [Exchange(HEARD, case.users[0], "a bang {}")]


def built(case, log):
    """Every prompt that there is, by name."""
    triple = Triple(HEARD, case.users[0], DOOR)
    table = prompts.table(case, triple, log)
    return {
        "dimensions": prompts.dimensions(case, 5, 4),
        "new_dimension": prompts.new_dimension(case, [DOOR], log, 4),
        "name_line": prompts.name_line(case, [DOOR], log),
        "value_line": prompts.value_line(case, DOOR.name),
        "question_line": prompts.question_line(case, DOOR, log),
        "prior": prompts.prior(case, DOOR, "shut", log),
        "questions": prompts.questions(case, [DOOR], [HEARD], log, 10, 4),
        "table": table,
        "cell": prompts.cell(case, triple, "shut", "nothing", log),
        "answer_table": prompts.answer_table(case, DOOR),
        "answer_cell": prompts.answer_cell(case, DOOR, "shut", "Ben"),
        "soft_map": prompts.soft_map(HEARD, "a bang {}"),
        "soft_cell": prompts.soft_cell(HEARD, "a bang {}", "nothing"),
        "final": prompts.final(case, [(DOOR, "shut")], log),
        "verify": prompts.verify(table, '{"cells": []}'),
        "redo": prompts.redo(table, '{"cells": []}', "feedback"),
        "with_line": prompts.with_line(table, "Go on."),
    }


def text_of(messages):
    return "\n".join(message["content"] for message in messages)


def public_functions(module):
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


# Private text.


@pytest.mark.parametrize("write", [str, "{}".format, lambda text: f"{text}", lambda text: f"{text!s:>5}"])
def test_a_private_text_cannot_be_written_into_another(write):
    with pytest.raises(TypeError, match="private text"):
        write(Private(SECRET))
    assert SECRET not in repr(Private(SECRET)) and Private(SECRET).reveal() == SECRET


def test_no_part_of_a_case_can_be_private():
    user = User("Ada", "a gardener")
    for make in (
        lambda: User("Ada", Private(SECRET)),
        lambda: Case("c", Private(SECRET), "", (user,)),
        lambda: Case("c", "Who?", Private(SECRET), (user,)),
        lambda: Case("c", "Who?", "", (user,), ("a", Private(SECRET))),
    ):
        with pytest.raises((TypeError, AttributeError)):
            make()


def types_in(annotation):
    yield annotation
    for inner in typing.get_args(annotation):
        yield from types_in(inner)


def reachable(annotation, seen):
    """Collect every class that a value of this type can hold."""
    for kind in types_in(annotation):
        if inspect.isclass(kind) and kind not in seen:
            seen.add(kind)
            if kind.__module__.startswith("sif_trainer"):
                for inner in typing.get_type_hints(kind).values():
                    reachable(inner, seen)
    return seen


def test_what_an_agent_prompt_takes_cannot_hold_a_private_text():
    takes = set()
    for function in public_functions(prompts).values():
        for annotation in typing.get_type_hints(function).values():
            reachable(annotation, takes)
    for name in ("dimensions", "priors", "questions", "tables", "answer_tables", "soft_map", "new_dimension"):
        for annotation in typing.get_type_hints(getattr(Elicitor, name)).values():
            reachable(annotation, takes)
    assert {Case, User, Dimension, Question, Exchange, Triple} <= takes
    assert Private not in takes and object not in takes
    assert not any(hasattr(kind, "ask") for kind in takes), "nor an environment, which holds them"


@pytest.mark.parametrize("module", [structured, labels, prompts])
def test_the_agents_modules_know_nothing_of_private_texts_and_environments(module):
    source = inspect.getsource(module)
    assert "reveal" not in source and "environments" not in source and "Environment" not in source


@pytest.mark.parametrize("label_only", [False, True])
def test_no_prompt_of_a_whole_case_holds_the_private_text(scripted_agent, case, label_only):
    agent, simulator = scripted_agent.ScriptedAgent(), Simulator()
    policy = ScriptedPolicy(agent, agent.score, identity="agent")
    config = BalarConfig(
        alpha=0.01, num_questions=3, max_rounds=9, kappa=1e9, max_states=1000, verifier=not label_only
    )
    make = labels.LabelElicitor if label_only else structured.PolicyElicitor
    done = run_case(case, make(policy, config), simulator, config)
    seen = [text for _, text in agent.calls] + agent.scored
    assert simulator.num_asked > 0 and done.last.num_expansions > 0 and len(seen) > 50
    assert not any(word in text for text in seen for word in ("xylophone", "attic"))


# Wording.


def test_every_prompt_is_built_and_none_has_a_gap_or_loses_braces(case, log):
    found = built(case, log)
    assert set(found) == set(public_functions(prompts))
    for name, messages in found.items():
        text = text_of(messages)
        fields = set(re.findall(r"\{\w*\}", text)) - {"{0}", "{name}", "{}"}
        assert not fields, (name, fields)
        assert [message["role"] for message in messages[:2]] == ["system", "user"]
    assert "What did you hear, {name}?" in text_of(found["table"]) and "open {0}" in text_of(found["table"])


def test_prompts_show_what_their_question_needs_and_nothing_else(case, log):
    found = {name: text_of(messages) for name, messages in built(case, log).items()}
    for name, text in found.items():
        alone = name in ("soft_map", "soft_cell")
        assert ("A spoon is gone." in text) == (not alone), name
        assert ("Options:\n1. Ada\n2. Ben\n3. the cat" in text) == (not alone), name
    for name in ("table", "cell"):
        assert "Ada: a gardener" in found[name] and "Ben: a cook" not in found[name], "one user, by public text"
    for name in ("new_dimension", "prior", "questions", "table", "final"):
        assert "Ada was asked: What did you hear, {name}? The answer: a bang {}" in found[name]
    assert "What was said so far" not in text_of(prompts.prior(case, DOOR, "shut", ()))
    assert "What was said so far" not in found["answer_table"], "made without the conversation"
    assert "do not repeat them: What did you hear" in found["questions"]
    assert "the door: shut" in found["final"]


def test_two_choices_ask_for_short_yes_or_no_questions(case):
    text = text_of(prompts.questions(case, [DOOR], (), (), 10, 2))
    assert "20 words at most" in text and "15 words at most" in text and "yes and no" in text


def test_a_row_needs_no_labels():
    assert Row((0.5, 0.5)) == Row((0.5, 0.5), (), ())
