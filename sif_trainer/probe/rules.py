"""Which rules can vote on a probe's samples, and how each of them votes.

    settings, left_out = votable(config, groups)
    outcomes = {name: vote(groups, s) for name, s in settings.items()}

One scoring pass serves them all. What takes more than that (a backward pass, a teacher, a rephrasing), or a setting
that only its own recipe knows, is left out with the reason, unless it is the recipe's own rule.
"""

from __future__ import annotations

from dataclasses import fields

from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.rule import Rule, complaint
from sif_trainer.feedback.rules import RULES
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.runs.errors import UserError

_LACKS = {  # the first that a rule lacks is named
    "teacher_answer": "its teacher is the policy itself before training: probe feedback=majority, which labels alike",
    "paired": "it needs every question rephrased: probe feedback=majority, which labels by one wording",
    "answer": "it votes by answer: set answer_rule=math (or gsm8k, mcq, …)",
    "verdict": "it trains on reference answers: give a source that has them, and monitor=math (or gsm8k, …)",
    "gradient_norm": "it takes a backward pass per response, which is only made for feedback=vigor",
}


def check_rule(config: FeedbackSettings, has_answers: bool, has_references: bool) -> None:
    """Refuse a recipe whose own rule a probe cannot show, before anything is sampled. Raises `UserError`."""
    missing = {"teacher_answer", "paired"}
    missing |= set() if has_answers else {"answer"}
    missing |= set() if has_references else {"verdict"}
    for name, why in _LACKS.items():
        if name in config.find_rule().reads & missing:
            raise UserError(f"feedback='{config.feedback}' cannot be probed here: {why}")


def votable(config: FeedbackSettings, groups: Groups) -> tuple[dict[str, FeedbackSettings], dict[str, str]]:
    """Return the settings of each rule that can vote on `groups`, the recipe's own first, and why others cannot."""
    settings, left_out = {}, {}
    for name in dict.fromkeys([config.feedback, *RULES]):
        own = name == config.feedback
        rule = config.find_rule() if own else RULES[name]
        if reason := None if own else _reason(name, rule, groups):
            left_out[name] = reason
        else:
            settings[name] = _settings(config, name, rule)
    return settings, left_out


def vote(groups: Groups, settings: FeedbackSettings) -> GroupOutcome:
    """Let the rule that `settings` names decide over all groups at once, as over one step.

    Raises `UserError` when what it returns is no outcome.
    """
    outcome = settings.find_rule().decide(groups, settings)
    if wrong := complaint(outcome, groups):
        raise UserError(f"feedback='{settings.feedback}': {wrong}")
    return outcome


def _reason(name: str, rule: Rule, groups: Groups) -> str | None:
    if rule.required:
        asked = " ".join(f"{setting}=…" for setting in rule.required)
        return f"it has settings of its own: probe it with feedback={name} {asked}"
    return next((why for field, why in _LACKS.items() if field in rule.reads and _is_absent(groups, field)), None)


def _is_absent(groups: Groups, field: str) -> bool:
    value = getattr(groups, field)
    return value is None or value is False  # `paired` is a flag, all others are tensors


def _settings(config: FeedbackSettings, name: str, rule: Rule) -> FeedbackSettings:
    """The recipe's settings under another rule."""
    values = {field.name: getattr(config, field.name) for field in fields(FeedbackSettings)}
    if "answer" not in rule.reads:
        values["num_trained"] = None
    return FeedbackSettings(**{**values, "feedback": name})
