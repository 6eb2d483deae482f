"""The whole loop without a language model: BALAR on worlds whose true tables are known.

    sif balar synthetic                                   # three sizes, 500 cases each
    sif balar synthetic sizes=[small] num_cases=50

Per size it compares, by accuracy after each question: BALAR with exact and with noisy tables, exact Bayes that asks
greedily or at random with the true tables, and BALAR with weights that were fitted on other worlds. It measures how
well predicted answers are calibrated, too. Beyond the paper.

One record per case in `cases.jsonl`; a killed run goes on with the cases that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from sif_trainer.evaluation.estimate import mean_over_problems, paired_difference
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.progress import Progress
from sif_trainer.systems.balar.calibration import calibration_error, fit_weights, reliability
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.environments.reference import at_random, greedy, is_greedy, play
from sif_trainer.systems.balar.environments.worlds import (
    LABELS,
    SIZES,
    WEIGHTS,
    Size,
    World,
    WorldElicitor,
    WorldUser,
    draw_world,
    mislabelled,
    state_number,
)
from sif_trainer.systems.balar.loop import run_case
from sif_trainer.systems.balar.trace import Trace

NUM_FITTED = 200
"""Worlds of other seeds on which weights are fitted."""
NEVER = 1e-12
"""An alpha that no belief reaches: every question is asked."""


class Variant(NamedTuple):
    """BALAR with these tables and weights."""

    noise: float = 0.0
    weights: tuple[float, float, float] | None = WEIGHTS
    """None: fitted on other worlds."""
    lookahead: Literal[1, 2] = 1


VARIANTS = {
    "balar": Variant(),
    "balar, two steps ahead": Variant(lookahead=2),
    "balar, noise 0.1": Variant(0.1),
    "balar, noise 0.2": Variant(0.2),
    "balar, noise 0.4": Variant(0.4),
    "balar, noise 0.2, fitted weights": Variant(0.2, None),
    "balar, noise 0.4, fitted weights": Variant(0.4, None),
    "balar, paper's weights": Variant(0.0, (0.8, 0.5, 0.2)),
}


@dataclass(frozen=True)
class SyntheticRecipe:
    """Which worlds, how many, and what is tried on them."""

    sizes: tuple[str, ...] = field(default=tuple(SIZES), metadata={"help": f"Of {', '.join(SIZES)}."})
    num_cases: int = field(default=500, metadata={"help": "Worlds of each size."})
    max_asks: int = field(default=25, metadata={"help": "Questions per case at most. Paper: 25."})
    variants: tuple[str, ...] = field(default=tuple(VARIANTS), metadata={"help": f"Of {'; '.join(VARIANTS)}."})

    def __post_init__(self) -> None:
        if not self.sizes:
            raise UserError(f"sizes is empty; name at least one of {', '.join(SIZES)}")
        for name, given, known in (("sizes", self.sizes, SIZES), ("variants", self.variants, VARIANTS)):
            for one in given:
                if one not in known:
                    raise UserError(f"{name}: no '{one}'{nearest(one, known)}; there are {', '.join(known)}")
        if self.num_cases < 1 or self.max_asks < 1:
            raise UserError("num_cases and max_asks must be 1 or more")


def run_synthetic(run: RunFolder, recipe: SyntheticRecipe) -> dict[str, Any]:
    """Play all cases that the folder lacks, and return the summary."""
    if not run.finished:
        cases = run.records("cases")
        known = {(record["size"], record["seed"]) for record in cases}
        total = len(recipe.sizes) * recipe.num_cases
        with Progress("balar synthetic", total, "case", done=len(known)) as progress:
            for name in recipe.sizes:
                seeds = [seed for seed in range(recipe.num_cases) if (name, seed) not in known]
                fitted = fitted_weights(SIZES[name]) if seeds else {}
                for seed in seeds:
                    cases.append({"size": name, "seed": seed, **_case(SIZES[name], seed, recipe, fitted)})
                    progress.update()
        run.finish(summarise(list(cases)))
    return run.summary


def fitted_weights(size: Size) -> dict[float, tuple[float, float, float]]:
    """Return for each noise the weights that explain the answers of other worlds best."""
    worlds = [draw_world(size, 1_000_000 + number) for number in range(NUM_FITTED)]
    return {noise: _fit(worlds, noise) for noise in sorted({variant.noise for variant in VARIANTS.values()})}


def _fit(worlds: Sequence[World], noise: float) -> tuple[float, float, float]:
    counts, chosen = [], []
    for world in worlds:
        own = mislabelled(world, noise).tables[
            :, :, np.arange(len(world.state)), world.state
        ]  # (questions, users, dimensions, choices)
        labels = np.arange(len(LABELS))
        counts.append((own[..., None] == labels).sum(2).reshape(-1, own.shape[-1], len(LABELS)))
        chosen += _replies(world)
    return fit_weights(np.concatenate(counts).astype(float), chosen)


def _replies(world: World) -> list[int]:
    """Return the place of the choice that each user gives to each question."""
    return [
        question.choices.index(world.reply(user, question))
        for question in world.questions
        for user in world.case.users
    ]


def _case(
    size: Size, seed: int, recipe: SyntheticRecipe, fitted: Mapping[float, tuple[float, float, float]]
) -> dict[str, Any]:
    world = draw_world(size, seed)
    players = {
        name: play(world, choose, recipe.max_asks)
        for name, choose in (("greedy", greedy), ("random", at_random(seed)))
    }
    right = {name: [answer == world.answer for answer in player.answers] for name, player in players.items()}
    record: dict[str, Any] = {"right": right, "predicted": {}}
    for name in recipe.variants:
        variant = VARIANTS[name]
        variant = variant._replace(weights=variant.weights or fitted[variant.noise])
        pairs, states, answers = _balar(world, size, recipe.max_asks, variant)
        right[name] = [answer == world.answer for answer in answers]
        record["predicted"][name] = _predictions(world, variant)
        if name == "balar":
            record["greedy"] = is_greedy(world, pairs, states)
    return record


def _balar(
    world: World, size: Size, max_asks: int, variant: Variant
) -> tuple[list[tuple[int, int]], list[int], list[str]]:
    """Return the pairs that BALAR asks, and the likeliest state and the answer at first and after each of them."""
    assert variant.weights is not None
    likely, neutral, unlikely = variant.weights
    config = BalarConfig(
        alpha=NEVER,
        max_asks=max_asks,
        num_dimensions=size.num_dimensions,
        num_questions=size.num_questions,
        max_values=size.num_values,
        max_states=size.num_states + 1,  # there is nothing to expand to
        likely=likely,
        neutral=neutral,
        unlikely=unlikely,
        lookahead=variant.lookahead,
    )
    elicitor, trace = WorldElicitor(world, config, variant.noise), Trace()
    trajectory = run_case(world.case, elicitor, WorldUser(world), config, trace)
    rounds = [record["value"] for record in trace.records if record["step"] == "round"]
    pairs = [divmod(decision["pair"], size.num_users) for decision in rounds if decision["action"] == "ask"]
    snapshots = [trajectory.after(num_asks) for num_asks in range(len(pairs) + 1)]
    states = [
        state_number([own.values.index(value) for own, value in snapshot.state], size.num_values)
        for snapshot in snapshots
    ]
    return pairs, states, [elicitor.final_answer(world.case, each.state, each.log) for each in snapshots]


def _predictions(world: World, variant: Variant) -> list[tuple[float, bool]]:
    """Return each choice's probability before any question, as an agent with these tables sees it, and if it came."""
    assert variant.weights is not None
    seen = replace(mislabelled(world, variant.noise), weights=variant.weights)
    predicted = np.einsum("s,qusy->quy", seen.prior, seen.likelihoods).reshape(-1, seen.tables.shape[-1])
    return [
        (round(float(p), 4), y == given)
        for row, given in zip(predicted, _replies(world), strict=True)
        for y, p in enumerate(row)
    ]


def summarise(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by size: accuracy after each number of questions with its interval, pairs against greedy, calibration."""
    return {
        name: _summary([case for case in cases if case["size"] == name])
        for name in dict.fromkeys(case["size"] for case in cases)
    }


def _summary(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(cases[0]["right"])
    length = max(len(case["right"][name]) for case in cases for name in names)
    curves = {
        name: [mean_over_problems([float(_at(case["right"][name], k)) for case in cases]) for k in range(length)]
        for name in names
    }
    at_last = {name: [float(_at(case["right"][name], length)) for case in cases] for name in names}
    minus_greedy = {
        name: paired_difference(at_last["greedy"], values) for name, values in at_last.items() if name != "greedy"
    }
    calibration = {}
    for name in cases[0]["predicted"]:
        predicted, happened = zip(*(pair for case in cases for pair in case["predicted"][name]), strict=True)
        bins = reliability(predicted, happened)
        calibration[name] = {"error": calibration_error(bins), "bins": [list(b) for b in bins]}
    return {
        "num_cases": len(cases),
        "greedy_rate": sum(case["greedy"] for case in cases) / len(cases) if "greedy" in cases[0] else None,
        "accuracy": {name: [vars(estimate) for estimate in curve] for name, curve in curves.items()},
        "minus_greedy": {name: vars(estimate) for name, estimate in minus_greedy.items()},
        "calibration": calibration,
    }


def _at(values: Sequence[bool], k: int) -> bool:
    """Return the value after k questions, the last where a case has fewer."""
    return values[min(k, len(values) - 1)]


def format_summary(summary: Mapping[str, Any], shown: Sequence[int] = (0, 5, 10, 15, 20, 25)) -> str:
    """Return accuracy in percent after some numbers of questions, with the half-width of the last interval."""
    lines = []
    for size, found in summary.items():
        length = len(next(iter(found["accuracy"].values())))
        columns = [k for k in shown if k < length]
        columns += [length - 1] * (length - 1 not in columns)
        lines.append(f"{size}: {found['num_cases']} cases")
        if found["greedy_rate"] is not None:
            lines[-1] += f"; with exact tables BALAR is greedy to the last question in {found['greedy_rate']:.1%}"
        lines += [f"  {'right after':<34}" + "".join(f"{k:>7}" for k in columns) + "      interval  calibration error"]
        for name, curve in found["accuracy"].items():
            last = curve[-1]
            error = found["calibration"].get(name)
            lines.append(
                f"  {name:<34}"
                + "".join(f"{100 * curve[k]['value']:>7.1f}" for k in columns)
                + f"  {100 * last['low']:>5.1f} - {100 * last['high']:.1f}"
                + (f"  {error['error']:.3f}" if error else "")
            )
    return "\n".join(lines)
