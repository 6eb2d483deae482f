"""The verdict of a probe in words, with the thresholds behind it.

It judges one thing: whether what the recipe's rule would push up is right more often than what it would push down
(`measure.accuracy_numbers`, lift), in the first step, on prompts like these. docs/probe.md says what it cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sif_trainer.evaluation.estimate import Estimate
from sif_trainer.probe.intervals import groups_needed

NEGLIGIBLE_LIFT = 0.1  # a whole interval within +- this much says: there is no information
LEAST_GROUPS = 5  # of both kinds of responses in a vote that decides; fewer can all lie on one side by chance
LEAST_ELIGIBLE_RATE = 0.5
MOST_TRUNCATED_RATE = 0.2
LEAST_MIXED_RATE = 0.1  # of groups with right and wrong responses
LEAST_ANSWER_RATE = 0.5

Word = Literal[
    "likely to help", "no information", "likely to hurt", "undecided", "cannot tell", "nothing to learn from"
]


@dataclass(frozen=True)
class Verdict:
    """A word, the reason, and what a user should look at before training."""

    word: Word
    reason: str
    warnings: list[str]


def judge(summary: dict[str, Any], lift: Estimate | None, agreement: Estimate | None) -> Verdict:
    """Return the verdict on the recipe's own rule.

    Args:
        summary: of `summary.summarise`, without the verdict.
        lift: of the rule against reference answers; None where there are none, or nothing was compared.
        agreement: the same against the groups' own majority answers.
    """
    return Verdict(*_word(summary, lift, agreement), _warnings(summary))


def _word(summary: dict[str, Any], lift: Estimate | None, agreement: Estimate | None) -> tuple[Word, str]:
    name, vote = summary["feedback"], summary["vote"]
    if not vote["winners_per_group"]:
        return "nothing to learn from", (
            f"{name} prefers no response to another in any of {summary['num_groups']} groups "
            f"({vote['eligible_rate']:.0%} of the responses are eligible, {vote['keep_rate']:.0%} are kept)"
        )
    if not summary["num_graded_groups"]:
        return "cannot tell", _without_references(agreement)
    if not summary["num_mixed_groups"]:
        return "no information", (
            f"no group has both right and wrong responses (accuracy {summary['accuracy']['value']:.1%}), so that no "
            "preference among them can be right or wrong"
        )
    if lift is None or summary["num_telling_groups"] < LEAST_GROUPS:
        return "undecided", (
            f"in only {summary['num_telling_groups']} of {summary['num_groups']} groups {name} has right and wrong "
            f"responses to choose from; it takes at least {LEAST_GROUPS}: raise num_probe_prompts"
        )
    sides = f"what {name} pushes up is right {{}} than what it pushes down ({_points(lift)})"
    if lift.low > 0:
        return "likely to help", sides.format("more often")
    if lift.high < 0:
        return "likely to hurt", sides.format("less often") + ": it would teach the policy its mistakes"
    if max(-lift.low, lift.high) <= NEGLIGIBLE_LIFT:
        return "no information", sides.format("about as often")
    needed = groups_needed(lift, summary["num_groups"], NEGLIGIBLE_LIFT)
    return "undecided", (
        sides.format("neither clearly more nor less often")
        + f"; about num_probe_prompts={needed} would bring the interval to +- {100 * NEGLIGIBLE_LIFT:.0f} points"
    )


def _without_references(agreement: Estimate | None) -> str:
    text = "without reference answers nobody knows whether the winners are right"
    if agreement is None:
        return text + "; the numbers below only say whether and how often the vote would act"
    side = "more" if agreement.low > 0 else "less" if agreement.high < 0 else "neither clearly more nor less"
    return text + (
        f"; they give the group's majority answer {side} often than what is pushed down ({_points(agreement)}), which "
        "is worth as much as the majority is"
    )


def _points(estimate: Estimate) -> str:
    value, low, high = (f"{100 * number:+.1f}" for number in (estimate.value, estimate.low, estimate.high))
    return f"{value} points, 95 % interval {low} to {high}"


def _warnings(summary: dict[str, Any]) -> list[str]:
    """What can spoil a run whatever the verdict says."""
    vote, responses = summary["vote"], summary["responses"]
    num_mixed, num_graded = summary["num_mixed_groups"], summary["num_graded_groups"]
    found = []
    if vote["eligible_rate"] < LEAST_ELIGIBLE_RATE:
        found.append(
            f"only {vote['eligible_rate']:.0%} of the responses are eligible; the others never train: see the "
            "suggested windows"
        )
    if summary["kept_per_step"] < summary["num_generations"]:
        found.append(
            f"a step of {summary['prompts_per_step']} prompts keeps {summary['kept_per_step']:.1f} responses, less "
            "than one group: raise prompts_per_step, or loosen the vote (window_wins, peer_win_rate)"
        )
    if responses["truncated_rate"] > MOST_TRUNCATED_RATE:
        found.append(
            f"{responses['truncated_rate']:.0%} of the responses were cut at max_completion_length; they vote without "
            "having answered: raise it, or set mask_truncated_completions=true"
        )
    if responses["num_nonfinite"]:
        found.append(
            f"{responses['num_nonfinite']} responses have logits that are not finite; check the weights, or dtype"
        )
    if num_graded and num_mixed < LEAST_MIXED_RATE * num_graded:
        found.append(
            f"{num_mixed} of {num_graded} groups have both right and wrong responses (accuracy "
            f"{summary['accuracy']['value']:.1%}); prompts that are always or never solved teach little"
        )
    if summary["answer_rate"] is not None and summary["answer_rate"] < LEAST_ANSWER_RATE:
        found.append(
            f"an answer was found in {summary['answer_rate']:.0%} of the responses: check prompt_suffix and the rule "
            "that reads answers"
        )
    return found
