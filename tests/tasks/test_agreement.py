from __future__ import annotations

from sif_trainer.evaluation.estimate import maj_at_k
from sif_trainer.tasks.agreement import Ballot, answer_classes


def test_equal_answers_share_a_class_and_silence_has_none():
    answers = ["1/2", r"\frac{1}{2}", None, "0.5", "2", "1/3", "2.0"]
    assert answer_classes([Ballot(answers, "math")]) == [[0, 0, None, 0, 1, 2, 1]]


def test_ballots_do_not_mix():
    ballots = [
        Ballot(["4", "5", "5"], "gsm8k"),
        Ballot([], "math"),
        Ballot(["5", "x+1", "1+x"], "math"),
        Ballot([None], "math"),
    ]
    assert answer_classes(ballots) == [[0, 1, 1], [], [0, 1, 1], [None]]


def test_the_rule_says_what_is_equal():
    """Within SciBench's 5 % two numbers are one answer; for MATH they are two."""
    answers = ["100", "103", "120"]
    assert answer_classes([Ballot(answers, "scibench"), Ballot(answers, "math")]) == [[0, 0, 1], [0, 1, 2]]


def test_a_scattered_majority_is_counted_as_one():
    answers = ["0.5", r"\frac12", "50/100", "7", "7"]
    scores = [0.0, 0.0, 0.0, 1.0, 1.0]
    assert maj_at_k(answer_classes([Ballot(answers, "math")])[0], scores) == 0.0
    assert maj_at_k(answers, scores) == 1.0  # what counting texts would say
