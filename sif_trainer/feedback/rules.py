"""The registry of feedback rules: one name in a recipe (`feedback: …`), one signature, one small file each.

docs/rules.md compares them; docs/extending.md adds one. A name of the form `FILE.py:NAME` is a rule of your own.
"""

from __future__ import annotations

import difflib

from sif_trainer.feedback.band import band
from sif_trainer.feedback.co_rewarding import co_rewarding, co_rewarding_ema
from sif_trainer.feedback.controls import random_reward, verifier
from sif_trainer.feedback.empo import empo
from sif_trainer.feedback.entropy import rent, trajectory_entropy
from sif_trainer.feedback.gates import certainty_gate, entropy_gate, length_gate, variance_gate
from sif_trainer.feedback.intuitor import intuitor
from sif_trainer.feedback.majority import majority
from sif_trainer.feedback.random_filter import random_filter, random_matched
from sif_trainer.feedback.rule import Rule
from sif_trainer.feedback.scope import scope
from sif_trainer.feedback.sif import sif
from sif_trainer.feedback.sif_no_peer import sif_no_peer
from sif_trainer.feedback.sif_no_window import sif_no_window
from sif_trainer.feedback.soft_majority import soft_majority
from sif_trainer.feedback.srt import srt
from sif_trainer.feedback.top2 import top2
from sif_trainer.feedback.vigor import vigor
from sif_trainer.own_code import load_own, own_file

_ANSWER = frozenset({"answer"})

RULES: dict[str, Rule] = {
    "sif": Rule(sif, needs_windows=True),
    "sif_no_peer": Rule(sif_no_peer, needs_windows=True),
    "sif_no_window": Rule(sif_no_window),
    "intuitor": Rule(intuitor),
    "top2": Rule(top2),
    "random_filter": Rule(random_filter, required=("filter_rate",)),
    "random_matched": Rule(random_matched, needs_windows=True),
    "certainty_gate": Rule(certainty_gate, required=("gate_threshold",)),
    "variance_gate": Rule(variance_gate, required=("gate_threshold",)),
    "entropy_gate": Rule(entropy_gate, frozenset({"entropy_mean"}), required=("gate_threshold",)),
    "length_gate": Rule(length_gate, needs_windows=True),
    "band": Rule(band, frozenset({"certainty_band"}), required=("band_low", "band_high")),
    "majority": Rule(majority, _ANSWER),
    "soft_majority": Rule(soft_majority, _ANSWER),
    "empo": Rule(empo, _ANSWER),
    "srt": Rule(srt, _ANSWER),
    "scope": Rule(scope, _ANSWER | {"step_confidence"}),
    "co_rewarding": Rule(co_rewarding, _ANSWER | {"paired"}),
    "co_rewarding_ema": Rule(co_rewarding_ema, _ANSWER | {"teacher_answer"}),
    "vigor": Rule(vigor, frozenset({"gradient_norm"})),
    "rent": Rule(rent, frozenset({"entropy_mean"})),
    "trajectory_entropy": Rule(trajectory_entropy, frozenset({"log_prob_mean"})),
    "random_reward": Rule(random_reward),
    "verifier": Rule(verifier, frozenset({"verdict"})),
}


def find_rule(name: str) -> Rule:
    """The rule of a name, or of `FILE.py:NAME`, where NAME is a function of the rules' signature or a `Rule`.

    Raises:
        ValueError: when there is no such rule, or the file does not hold one.
    """
    if name in RULES:
        return RULES[name]
    if own_file(name) is None:
        near = difflib.get_close_matches(name, RULES, 1)
        guess = f"; did you mean '{near[0]}'?" if near else ""
        raise ValueError(
            f"feedback='{name}' is no rule{guess}; choose one of {', '.join(RULES)}, or FILE.py:NAME for one of "
            "your own"
        )
    try:
        found = load_own(name)
    except ValueError as error:
        raise ValueError(f"feedback={error}") from error
    if not isinstance(found, Rule) and not callable(found):
        raise ValueError(f"feedback='{name}' is no function and no Rule, but {found!r:.60}")
    return found if isinstance(found, Rule) else Rule(found)
