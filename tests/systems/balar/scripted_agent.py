"""A scripted model that answers every prompt of BALAR's agent with valid JSON, and remembers what it was asked.

    agent = ScriptedAgent()
    policy = ScriptedPolicy(agent, agent.score, identity="agent")
    agent.overrides["priors"] = lambda text, number: "no JSON"

Labels follow from a hash of the prompt, so that they are the same in every process.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter

LABELS = ("likely", "neutral", "unlikely")
STAGES = {  # a mark of the stage's schema
    '"dimensions": {': "dimensions",
    '"questions": {': "questions",
    '"cells": {': "tables",
    '"is_valid": {': "verdict",
    '"option": {': "final",
    '"answer": {': "final",
    '"choices": {"type": "array", "items": {"type": "object"': "soft_map",
    '"values": {': "new_dimension",
    '"label": {': "priors",
}


class ScriptedAgent:
    """Called as (rendered prompt, sample number); `overrides` by stage may answer instead, or return None."""

    def __init__(self, num_dimensions=2, num_values=2, num_questions=3, num_choices=2, num_new_questions=2):
        self.sizes = (num_dimensions, num_values, num_questions, num_choices, num_new_questions)
        self.overrides = {}
        self.calls = []
        self.scored = []

    @property
    def counts(self):
        return Counter(stage for stage, _ in self.calls)

    def __call__(self, text, number):
        stage = next((stage for mark, stage in STAGES.items() if mark in text), "line")
        if stage == "tables" and "Options are the choices here" in text:
            stage = "answer_tables"
        if stage == "questions" and "do not repeat them" in text:
            stage = "new_questions"
        self.calls.append((stage, text))
        own = self.overrides.get(stage, lambda text, number: None)(text, number)
        if own is not None:
            return own if isinstance(own, str) else json.dumps(own)
        return json.dumps(getattr(self, stage)(text))

    def score(self, text, label):
        self.scored.append(text)
        return -1.0 * LABELS.index(label) if label in LABELS else -1.0

    def dimensions(self, text):
        num, num_values, *_ = self.sizes
        return {"dimensions": [self._dimension(f"fact {number}", num_values) for number in range(num)]}

    def new_dimension(self, text):
        return self._dimension(f"new fact {text.count('new fact')}", self.sizes[1])

    def _dimension(self, name, num_values):
        return {"reason": "why", "name": name, "values": [f"{name} value {v}" for v in range(num_values)]}

    def questions(self, text, num=None, stem="question"):
        choices = [f"choice {c}" for c in range(self.sizes[3])]
        texts = [f"{stem} {number}?" for number in range(self.sizes[2] if num is None else num)]
        return {"questions": [{"reason": "why", "text": text, "choices": choices} for text in texts]}

    def new_questions(self, text):
        return self.questions(text, self.sizes[4], f"follow-up {text.count('follow-up')}")

    def priors(self, text):
        return {"reason": "a reason", "label": self._label(text, 0, 0)}

    def tables(self, text):
        return self._grid(text, numbered(text, "They may answer"), numbered(text, "It may be"))

    def answer_tables(self, text):
        return self._grid(text, numbered(text, "Options"), numbered(text, "It may be"))

    def soft_map(self, text):
        num = numbered(text, "Fill in every choice exactly once, by its number.")
        answer = re.search(r"The answer was: (.*)", text)[1]
        chosen = re.search(rf"^(\d+)\. {re.escape(answer)}$", text, re.M)
        labels = ["likely" if chosen and int(chosen[1]) == c else "unlikely" for c in range(1, num + 1)]
        return {"choices": [{"choice": c, "reason": "r", "label": label} for c, label in enumerate(labels, 1)]}

    def final(self, text):
        return {"reason": "r", "option": 1} if '"option": {' in text else {"reason": "r", "answer": "a butler"}

    def verdict(self, text):
        return {"feedback": "fine", "is_valid": True}

    def line(self, text):
        return f"line {digest(text) % 1000}"

    def _grid(self, text, num_choices, num_values):
        return {
            "cells": [
                {"value": v, "choice": c, "reason": f"reason {v} {c}", "label": self._label(text, v, c)}
                for v in range(1, num_values + 1)
                for c in range(1, num_choices + 1)
            ]
        }

    def _label(self, text, value, choice):
        return LABELS[digest(text.partition("according to this schema")[0], value, choice) % 3]


def numbered(text, heading):
    """Return how many numbered lines follow a heading."""
    lines = text[text.index(heading) :].splitlines()[1:]
    return next((n for n, line in enumerate(lines) if not re.match(r"\d+\. ", line)), len(lines))


def digest(*parts):
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16)
