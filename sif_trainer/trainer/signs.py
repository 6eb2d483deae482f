"""Label-free signs of collapse, read from the metrics of a run; `health.py` acts on them.

    signs_of_collapse(records, window=10)      # {} or {"repetition": "repetition 0.04 -> 0.31"}

The thresholds were set on the embedded world (docs/footguns.md); `health_thresholds` replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LOGP_DIFFERENCE = "sampling/sampling_logp_difference/mean"  # TRL's, of vLLM's log-probabilities to the trainer's
THRESHOLDS: dict[str, float] = {
    "certainty_rise": 1.1,  # of its level at the start; with it, the spread within a response must have risen:
    "variance_rise": 1.25,
    "top_word_rise": 1.5,  # share of the most frequent word, of its level at the start
    "repetition_rise": 0.1,  # repeated n-grams, above their rate at the start
    "entropy_fall": 0.4,  # of its level at the start
    "length_fall": 0.5,
    "length_rise": 2.0,
    "least_keep_rate": 0.02,
    "most_kl": 1.0,  # mean of the k3 estimator per token, nats
    "logp_difference_rise": 5.0,  # of vLLM's log-probabilities to the trainer's, of its level at the start; with it,
    "least_logp_difference": 0.05,  # nats per token, it must be more than this
    "most_weight_difference": 1e-3,  # of vLLM's weights to the trainer's, relative; equal weights differ by 0
}


def signs_of_collapse(
    history: Sequence[Mapping[str, Any]], window: int, thresholds: Mapping[str, float] = THRESHOLDS
) -> dict[str, str]:
    """Compare the last `window` logged steps with the first; return the signs that are on, each with its numbers.

    Args:
        history: the run's metrics, oldest first (docs/metrics.md).
        window: steps on either side; with fewer than two windows of history nothing can be said yet.
        thresholds: see `THRESHOLDS`.
    """
    if len(history) < 2 * window:
        return {}
    first, last = _Means(history[:window]), _Means(history[-window:])
    t = thresholds
    signs = {}

    def sign(name: str, on: bool, what: str) -> None:
        if on:
            signs[name] = what

    certainty, variance = (
        (first[f"sif/{name}"], last[f"sif/{name}"]) for name in ("certainty_mean", "certainty_variance")
    )
    sign(
        "overconfidence",
        certainty[1] > t["certainty_rise"] * certainty[0] and variance[1] > t["variance_rise"] * variance[0],
        f"certainty {_change(*certainty)}, its variance {_change(*variance)}",
    )
    word = first["sif/top_word_share"], last["sif/top_word_share"]
    sign("top_word", word[1] > t["top_word_rise"] * word[0], f"top word share {_change(*word)}")
    repeated = first["sif/repetition_rate"], last["sif/repetition_rate"]
    more = repeated[1] > repeated[0] + t["repetition_rise"]
    sign("repetition", more, f"repetition {_change(*repeated)}")
    entropy = first["sif/entropy"], last["sif/entropy"]
    sign("entropy", entropy[1] < t["entropy_fall"] * entropy[0], f"entropy {_change(*entropy)}")
    length = first["sif/length"], last["sif/length"]
    outside = not t["length_fall"] * length[0] <= length[1] <= t["length_rise"] * length[0]
    sign("length", outside, f"length {_change(*length)}")
    sign("keep_rate", last["sif/keep_rate"] < t["least_keep_rate"], f"keep rate {last['sif/keep_rate']:.3f}")
    sign("kl", last["kl"] > t["most_kl"], f"KL {last['kl']:.2f} nats per token")
    drift = first[LOGP_DIFFERENCE], last[LOGP_DIFFERENCE]
    apart = drift[1] > max(t["logp_difference_rise"] * drift[0], t["least_logp_difference"])
    sign("engine", apart, f"vLLM's log-probabilities differ from the trainer's by {_change(*drift)} nats per token")
    weights = last["engine/weight_difference"]
    sign("engine_weights", weights > t["most_weight_difference"], f"vLLM's weights differ by {weights:.2g}")
    return signs


class _Means:
    """Means over some logged steps; NaN, which makes every comparison false, where nothing was logged."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = records

    def __getitem__(self, name: str) -> float:
        values = [record[name] for record in self._records if record.get(name) is not None]
        return sum(values) / len(values) if values else float("nan")


def _change(before: float, after: float) -> str:
    return f"{before:.3g} -> {after:.3g}"
