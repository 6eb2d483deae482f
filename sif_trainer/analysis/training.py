"""What training runs' own records show: dispersion of certainty, words, kept against all, proxy against accuracy.

    run = read_run(Path("runs/train/mine"), "mine")
    kept_against_all(run.metrics)           # Table 4

Figures 7 and 8 and Tables 4 and 10 of the paper, whose exact windows and words could not be read: a moment is here the
mean of a tenth of the logged steps, and a word of the samples a run of letters and digits, in lower case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sif_trainer.analysis.interval import mean_interval
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import Records

Rows: TypeAlias = list[dict[str, Any]]
LEAST_STEPS = 5  # of a moment


@dataclass(frozen=True)
class Run:
    """A training run's records; a list is empty where the run did not keep them. Of samples, step and completion."""

    label: str
    metrics: Rows
    samples: Rows
    validation: Rows

    @property
    def best_step(self) -> int | None:
        """The step of the highest held-out accuracy after the start; None where none was measured."""
        trained = [record for record in self.validation if record["step"] > 0]
        return max(trained, key=lambda r: (r["accuracy"], -r["step"]))["step"] if trained else None


def read_run(folder: Path, label: str) -> Run:
    """Read a run folder of `sif train` or `sif adapt`, finished or not.

    Raises:
        UserError: when it is no run folder of training.
    """
    if not (folder / "metrics.jsonl").exists():
        hint = "; name its runs: FOLDER/ARM/seedK" if (folder / "study.json").exists() else ""
        raise UserError(f"{folder} is no folder of a training run: it has no metrics.jsonl{hint}")
    metrics, validation = (list(Records(folder / f"{name}.jsonl", writer=False)) for name in ("metrics", "validation"))
    samples = Records(folder / "samples.jsonl", writer=False)  # of which no more is kept than what is read here
    return Run(label, metrics, [{key: one[key] for key in ("step", "completion")} for one in samples], validation)


def analyze(run: Run) -> dict[str, Any]:
    """Return the run's curves, tables, and what it lacks for the rest, as plain values for report/analysis.py."""
    words = word_use(run.samples)
    curves = {
        "certainty variance": curve(run.metrics, "sif/certainty_variance"),
        "mean certainty": curve(run.metrics, "sif/certainty_mean"),
        "top word share": curve(run.metrics, "sif/top_word_share"),
        "lexical concentration": [(step, used["concentration"]) for step, used in words.items()],
        "accuracy": curve(run.validation, "accuracy"),
    }
    pairs = kept_against_all(run.metrics)
    curves |= {f"{row['monitor']}, kept minus all": row["curve"] for row in pairs}
    return {
        "label": run.label,
        "curves": curves,
        "moments": moments(run, words),
        "kept": pairs,
        "proxy": proxy_against_accuracy(run),
        "lacks": _lacks(run, pairs),
    }


def _lacks(run: Run, pairs: Rows) -> list[str]:
    missing = {
        "samples.jsonl (samples_every=0?): no lexical concentration and no most frequent word": run.samples,
        "validation.jsonl (no validation=...): no best step, and no proxy against accuracy": run.validation,
        "monitor in metrics.jsonl (no monitor=...): no accuracy of kept against all": pairs,
        "certainty in metrics.jsonl: no dispersion": curve(run.metrics, "sif/certainty_variance"),
    }
    return [f"{run.label} has no {what}" for what, found in missing.items() if not found]


def curve(rows: Iterable[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    """Return (step, value) where the value was recorded."""
    return [(row["step"], row[name]) for row in rows if row.get(name) is not None]


def word_use(samples: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return, for each sampled step, how its completions use words.

    `top_word` and its `share` of all words; `concentration`: the chance that two words drawn with replacement are the
    same, the sum of squared shares. Steps without a word are left out.
    """
    counts: dict[int, Counter[str]] = {}
    for sample in samples:
        words = re.findall(r"\w+", sample["completion"].lower())
        counts.setdefault(sample["step"], Counter()).update(words)
    return {
        step: {
            "top_word": max(count, key=lambda word: (count[word], word)),
            "share": max(count.values()) / count.total(),
            "concentration": sum(number**2 for number in count.values()) / count.total() ** 2,
        }
        for step, count in counts.items()
        if count
    }


def moments(run: Run, words: Mapping[int, Mapping[str, Any]]) -> Rows:
    """Return certainty, its variance and the use of words at the first, best and last moment (Figures 7 and 8)."""
    if not run.metrics:
        return []
    places = {"first": run.metrics[0]["step"], "best": run.best_step, "last": run.metrics[-1]["step"]}
    rows = []
    for name, step in places.items():
        if step is not None:
            near = _around(run.metrics, step)
            sampled = words[min(words, key=lambda s: abs(s - step))] if words else {}
            rows.append(
                {
                    "moment": name,
                    "step": step,
                    "certainty_mean": _mean(near, "sif/certainty_mean"),
                    "certainty_variance": _mean(near, "sif/certainty_variance"),
                    "top_word_share": _mean(near, "sif/top_word_share"),
                    "concentration": sampled.get("concentration"),
                    "top_word": sampled.get("top_word"),
                }
            )
    return rows


def kept_against_all(metrics: Rows) -> Rows:
    """Return for each monitor and moment (early, mid, last) its mean over all and over kept responses (Table 4).

    The interval of their difference is over the moment's steps, which are of one run: it says how far the steps agree,
    not what another run would do. Steps that kept nothing are left out of both means.
    """
    rows = []
    monitors = dict.fromkeys(
        key.split("/")[1] for row in metrics for key in row if re.fullmatch("monitor/.*/kept", key)
    )
    for monitor in monitors:
        every, kept = f"monitor/{monitor}/all", f"monitor/{monitor}/kept"
        both = [row for row in metrics if row.get(every) is not None and row.get(kept) is not None]
        if not both:
            continue
        span = _span(both)
        middle = (len(both) - span) // 2
        parts = {"early": both[:span], "mid": both[max(middle, 0) :][:span], "last": both[-span:]}
        rows.append(
            {
                "monitor": monitor,
                "curve": [(row["step"], row[kept] - row[every]) for row in both],
                "moments": {
                    name: {
                        "steps": [part[0]["step"], part[-1]["step"]],
                        "all": _mean(part, every),
                        "kept": _mean(part, kept),
                        "difference": mean_interval([row[kept] - row[every] for row in part]),
                    }
                    for name, part in parts.items()
                },
            }
        )
    return rows


def proxy_against_accuracy(run: Run) -> Rows:
    """Return for each measured step the training responses' mean certainty beside held-out accuracy (Table 10).

    Certainty is the mean of the logged steps since the measurement before; the start has none.
    """
    rows, before = [], 0
    for record in run.validation:
        since = [row for row in run.metrics if before < row["step"] <= record["step"]]
        certainty = _mean(since, "sif/certainty_mean")
        if certainty is not None:
            rows.append({"step": record["step"], "certainty_mean": certainty, "accuracy": record["accuracy"]})
        before = record["step"]
    return rows


def _around(metrics: Rows, step: int) -> Rows:
    """Return the moment around a step: at least LEAST_STEPS logged steps, a tenth of all, as far as there are any."""
    span = _span(metrics)
    place = min(range(len(metrics)), key=lambda k: abs(metrics[k]["step"] - step))
    start = min(max(place - span // 2, 0), max(len(metrics) - span, 0))
    return metrics[start : start + span]


def _span(rows: Sequence[Any]) -> int:
    return max(len(rows) // 10, LEAST_STEPS)


def _mean(rows: Rows, name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None
