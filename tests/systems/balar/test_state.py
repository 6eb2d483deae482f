"""What the agent knows, with known tables instead of a model."""

from __future__ import annotations

import pytest
import torch

from sif_trainer.systems.balar import BalarConfig, Dimension, Question, Row, run_case
from sif_trainer.systems.balar.state import State


class FirstChoice:
    """A user who always gives the first choice."""

    def ask(self, case, user, question, free):
        return question.choices[0]


TABLES = {
    ("first?", "A"): ((0.9, 0.1), (0.2, 0.8)),
    ("first?", "B"): ((0.7, 0.3), (0.4, 0.6)),
    ("second?", "A"): ((0.6, 0.4), (0.5, 0.5)),
    ("second?", "B"): ((0.95, 0.05), (0.1, 0.9)),
}


class Exact:
    """An elicitor with one dimension and question at first, and another of each in the expansion."""

    concurrent = False
    A, B = Dimension("A", ("a0", "a1")), Dimension("B", ("b0", "b1"))
    FIRST, SECOND = Question("first?", ("x", "y")), Question("second?", ("x", "y"), cost=4.0)

    def __init__(self, tables=()):
        self.known = {**TABLES, **dict(tables)}

    def dimensions(self, case):
        return [self.A]

    def priors(self, case, dimensions, log):
        self.log_of_priors = log
        return [Row((0.5, 0.5)) for _ in dimensions]

    def questions(self, case, dimensions):
        return [self.FIRST]

    def tables(self, case, triples, log):
        return [tuple(map(Row, self.known[q.text, d.name])) for q, _, d in triples]

    def soft_map(self, case, question, answer):
        return Row(tuple(float(choice == answer) for choice in question.choices))

    def new_dimension(self, case, dimensions, log):
        return None if len(dimensions) > 1 else self.B

    def new_questions(self, case, dimensions, known, log):
        return [self.SECOND, self.FIRST._replace(choices=("p", "q"))]

    def final_answer(self, case, state, log):
        return " ".join(value for _, value in state)


def test_replay_is_bayes_with_all_dimensions_from_the_start(puzzle):
    """And without it, the first answer is silent about the new dimension."""

    def posterior(first_sees_b):
        joint = {}
        for a in (0, 1):
            for b in (0, 1):
                weight = 0.25
                for question, sees_b in (("first?", first_sees_b), ("second?", True)):
                    rows = [TABLES[question, "A"][a]] + [TABLES[question, "B"][b]] * sees_b
                    x = torch.tensor(rows).prod(0)
                    weight *= float(x[0] / x.sum())
                joint[a, b] = weight
        return [value / sum(joint.values()) for value in joint.values()]

    for replay in (False, True):
        elicitor = Exact()
        done = run_case(puzzle, elicitor, FirstChoice(), BalarConfig(alpha=0.001, beta=1.0, replay=replay))
        assert done.ended_by == "exhausted" and done.answer == "a0 b0" and len(done.questions) == 2
        assert done.last.log_joint.exp().flatten().tolist() == pytest.approx(posterior(replay), abs=1e-6)
        assert len(elicitor.log_of_priors) == (0 if replay else 1), "what is replayed must not shape the prior as well"
        assert done.cost == 5.0


def test_tables_that_are_no_distributions_are_refused(puzzle):
    for rows, message in [
        (((1.0, 0.0), (0.2, 0.8)), "positive"),
        (((0.9, 0.2), (0.2, 0.8)), "sum to 1"),
        (((0.9, 0.1),), "has 2 values, its table 1"),
        (((0.5, 0.3, 0.2), (0.2, 0.8)), "expected 2"),
    ]:
        elicitor = Exact({("first?", "A"): rows})
        with pytest.raises(ValueError, match=message):
            run_case(puzzle, elicitor, FirstChoice(), BalarConfig())


def test_a_final_answer_must_be_an_option(case):
    elicitor = Exact()
    elicitor.answer_tables = lambda case, dimensions: [tuple([Row((0.4, 0.3, 0.3))] * 2)] * len(dimensions)
    with pytest.raises(ValueError, match="none of the options"):
        run_case(case, elicitor, FirstChoice(), BalarConfig())


def test_a_correction_is_as_if_it_had_been_said_at_first(puzzle):
    def told(*omegas):
        state = State(puzzle, BalarConfig(), [Exact.A], [Row((0.5, 0.5))])
        for pair in state.add_questions([Exact.FIRST, Exact.SECOND]):
            state.add_tables(pair, [tuple(map(Row, TABLES[state.pair(pair)[0].text, "A"]))])
        state.tell(0, "x", Row(omegas[0]))
        state.add_dimension(Exact.B, Row((0.3, 0.7)))
        state.add_tables(1, [tuple(map(Row, TABLES["second?", "B"]))])
        state.tell(1, "y", Row(omegas[1]))
        return state

    corrected, direct = told((1.0, 0.0), (0.2, 0.8)), told((0.1, 0.9), (0.2, 0.8))
    assert not torch.allclose(corrected.log_joint, direct.log_joint, atol=0.01)
    corrected.correct(0, "y, rather", Row((0.1, 0.9)))
    assert torch.allclose(corrected.log_joint, direct.log_joint, atol=1e-12)
    assert [turn.answer for turn in corrected.log] == ["y, rather", "y"]
