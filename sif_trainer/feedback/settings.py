"""The settings that feedback rules read: `feedback: NAME` and the options of each rule, each declared once, here.

`SIFConfig` inherits them, so that every field is a key of a training recipe; `sif vote` takes them as well. Sources in
the help texts: "paper" means stated there, "ours" a choice where the paper is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sif_trainer.feedback.rule import Rule
    from sif_trainer.feedback.sif import SIFRule


def _setting(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass
class FeedbackSettings:
    """Settings of the rules; a rule reads its own and ignores the others.

    Raises:
        ValueError: for a rule that does not exist, an option that it needs and lacks, or a value out of range.
    """

    feedback: str = _setting(
        "sif", "Rule that turns a group's responses into rewards (docs/rules.md lists them), or FILE.py:NAME."
    )

    # --- windows and votes: sif, sif_no_peer, sif_no_window, random_matched, length_gate --------------------------
    num_windows: int = _setting(10, "K, windows per ranked profile (paper: 10).")
    window_size: int = _setting(100, "w, tokens per window (paper: 100).")
    min_stride: int = _setting(
        50, "s, tokens between window starts in the shortest eligible response; L_min = w + s (K-1) (paper: 50)."
    )
    window_wins: int = _setting(8, "tau_w, windows of K in which a response must lead to beat a peer (paper: 8).")
    peer_win_rate: float = _setting(
        0.75, "tau_p in (0, 1], fraction of the other eligible responses that a winner must beat (paper: 3/4)."
    )

    # --- options of the other rules -------------------------------------------------------------------------------
    num_top: int = _setting(2, "top2: responses of a group that are rewarded (paper: 2).")
    filter_rate: float | None = _setting(
        None, "random_filter: share of a step's responses that is dropped (paper: 0.1, 0.2, 0.4)."
    )
    gate_threshold: float | None = _setting(
        None,
        "certainty_gate, variance_gate: most, entropy_gate: least value, in nats, of a response that is kept (the "
        "paper does not tell its values).",
    )
    band_low: float | None = _setting(None, "band: lower quantile of a response's sorted certainties, in [0, 1).")
    band_high: float | None = _setting(None, "band: upper quantile of a response's sorted certainties, in (0, 1].")
    num_trained: int | None = _setting(
        None,
        "Rules that vote by answer: train on the first so many of the num_generations responses that vote; must "
        "divide it; all if left out (TTRL: 32 of 64).",
    )
    consistency_threshold: float = _setting(
        0.0, "srt: least share of the majority's answer in a group that is trained on, in [0, 1]."
    )
    scope_quality_weight: float = _setting(
        0.7, "scope: weight in [0, 1] of agreement against diversity when the subgroup size is chosen (SCOPE: 0.7)."
    )
    confidence_top_k: int = _setting(
        20, "scope: k, most likely tokens whose mean log-probability is a token's confidence (ours; SCOPE is silent)."
    )
    teacher_rate: float = _setting(
        0.01, "co_rewarding_ema: the policy's weight in the teacher's moving average at the first step."
    )
    teacher_rate_end: float = _setting(1e-5, "co_rewarding_ema: the same at the last step; cosine in between.")
    advantage_epsilon: float = _setting(
        1e-6, "Added to the group's standard deviation (ours; the paper is silent, verl 1e-6, TRL 1e-4)."
    )

    def __post_init__(self) -> None:
        self.windows  # noqa: B018  (refuses what no vote can work with)
        rule = self.find_rule()
        for name in rule.required:
            if getattr(self, name) is None:
                raise ValueError(f"feedback='{self.feedback}' needs {name}: {_help(name)}")
        for name, allowed, interval in _RANGES:
            value = getattr(self, name)
            if value is not None and not allowed(value):
                raise ValueError(f"{name}={value} must {interval}")
        if self.band_low is not None and self.band_high is not None and not self.band_low < self.band_high:
            raise ValueError(f"band_low={self.band_low} must lie below band_high={self.band_high}")
        if self.num_trained is not None and "answer" not in rule.reads:
            raise ValueError(
                f"num_trained={self.num_trained} is for rules that vote by answer; feedback='{self.feedback}' trains "
                "on all responses of a group: leave it out"
            )

    @property
    def windows(self) -> SIFRule:
        """The vote's settings by themselves."""
        from sif_trainer.feedback.sif import SIFRule

        return SIFRule.from_settings(self)

    def find_rule(self) -> Rule:
        """The rule that `feedback` names. Raises ValueError when there is none."""
        from sif_trainer.feedback.rules import find_rule

        return find_rule(self.feedback)


_Allowed = Callable[[Any], bool]
_RANGES: tuple[tuple[str, _Allowed, str], ...] = (
    ("num_top", lambda v: v >= 1, "be at least 1"),
    ("filter_rate", lambda v: 0 < v < 1, "lie in (0, 1) (the paper: 0.1, 0.2 and 0.4)"),
    ("gate_threshold", lambda v: 0 <= v < float("inf"), "be finite and not negative"),
    ("band_low", lambda v: 0 <= v < 1, "lie in [0, 1)"),
    ("band_high", lambda v: 0 < v <= 1, "lie in (0, 1]"),
    ("num_trained", lambda v: v >= 2, "be at least 2: a single response has nothing to be compared with"),
    ("consistency_threshold", lambda v: 0 <= v <= 1, "lie in [0, 1]"),
    ("scope_quality_weight", lambda v: 0 <= v <= 1, "lie in [0, 1]"),
    ("confidence_top_k", lambda v: v >= 1, "be at least 1"),
    ("teacher_rate", lambda v: 0 <= v <= 1, "lie in [0, 1]"),
    ("teacher_rate_end", lambda v: 0 <= v <= 1, "lie in [0, 1]"),
    ("advantage_epsilon", lambda v: v >= 0, "not be negative"),
)  # fmt: skip


def _help(name: str) -> str:
    text: str = FeedbackSettings.__dataclass_fields__[name].metadata["help"]
    return text
