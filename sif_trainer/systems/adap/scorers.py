"""Scorers by name, and those that need no model of their own: the policy's certainty, votes, any function.

    Certainty().score(problem, candidates)          # a number for each, higher is better; None is missing
    SCORERS["reward_model"](model="path/to/model")  # `reward_models.py`

The published experiments score with a reward model only. The scores of a vote are relative to the candidates that are
scored together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from sif_trainer.own_code import load_own
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap.parts import Candidate, Problem, Scorer
from sif_trainer.systems.adap.reward_models import ProcessRewardModel, RewardModel
from sif_trainer.tasks.agreement import AnswerReader

Scores = list[float | None]


class Certainty:
    """The policy's own mean self-certainty over the candidate's tokens."""

    relative = False

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Scores:
        return _measured(problem, candidates, "mean_certainty")


class LogProbability:
    """The policy's mean log-probability of the candidate's tokens."""

    relative = False

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Scores:
        return _measured(problem, candidates, "mean_log_probability")


class ProfileVote:
    """The vote of Selective Internal Feedback among the candidates, as a ranking.

    A candidate's score is the number of others that it beats, its ranked profile being strictly higher in at least
    `window_wins` windows; the share of all windows in which it is higher decides between equals. In training the same
    count is cut off into a reward of 0 or 1. Candidates too short for a profile neither vote nor score; an engine that
    gives none to any is refused.
    """

    relative = True

    def __init__(self, window_wins: int = 8) -> None:
        if window_wins < 1:
            raise UserError(f"window_wins is {window_wins}; it must be 1 or more")
        self.window_wins = window_wins

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Scores:
        profiles = [None if candidate.sample is None else candidate.sample.profile for candidate in candidates]
        voting = [place for place, profile in enumerate(profiles) if profile is not None]
        scores: Scores = [None] * len(candidates)
        if not voting:
            _measured(problem, candidates, "mean_certainty")  # refuses an engine without; else all are too short
            return scores
        windows = np.array([profiles[place] for place in voting])
        num_windows = windows.shape[1]
        if self.window_wins > num_windows:
            raise UserError(f"window_wins is {self.window_wins}, but profiles have {num_windows} windows; lower it")
        votes = (windows[:, None] > windows[None]).sum(-1)
        beaten = (votes >= self.window_wins).sum(-1)
        share = votes.sum(-1) / (num_windows * len(voting))
        for place, score in zip(voting, beaten + share, strict=True):
            scores[place] = float(score)
        return scores


class Majority:
    """The number of candidates with an equal final answer, by a grading rule; one without an answer is missing."""

    relative = True

    def __init__(self, rule: str = "math") -> None:
        self._reader = AnswerReader(rule)

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Scores:
        classes = self._reader.classes([[candidate.answer for candidate in candidates]])[0]
        votes = Counter(classes)
        return [None if number is None else float(votes[number]) for number in classes]


class FunctionScorer:
    """Any function of (problem, candidates) that returns a number, or None, for each candidate."""

    def __init__(self, function: Callable[[Problem, Sequence[Candidate]], Sequence[float | None]], relative: bool):
        self.function, self.relative = function, relative

    @classmethod
    def load(cls, function: str, relative: bool = False) -> FunctionScorer:
        """Take `module:function` or `path.py:function`. Raises `UserError` where there is no such function."""
        try:
            found = load_own(function)
        except ValueError as error:
            raise UserError(f"cannot load the scorer {error}") from error
        if not callable(found):
            raise UserError(f"the scorer '{function}' is no function")
        return cls(found, relative)

    def score(self, problem: Problem, candidates: Sequence[Candidate]) -> Scores:
        return list(self.function(problem, candidates))


SCORERS: dict[str, Callable[..., Scorer]] = {
    "certainty": Certainty,
    "log_probability": LogProbability,
    "profile_vote": ProfileVote,
    "majority": Majority,
    "reward_model": RewardModel.load,
    "process_reward_model": ProcessRewardModel.load,
    "function": FunctionScorer.load,
}


def _measured(problem: Problem, candidates: Sequence[Candidate], field: str) -> Scores:
    values = [None if c.sample is None else getattr(c.sample, field) for c in candidates]
    if candidates and all(value is None for value in values):
        raise UserError(
            f"no candidate of problem '{problem.id}' has a {field}; sample with certainty=true, from an engine that "
            "sees logits (docs/policy.md), or choose another scorer"
        )
    return [None if value is None or math.isnan(value) else float(value) for value in values]
