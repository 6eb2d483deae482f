"""Replay's figures: success against budget, cost against the price of a verification, and the premise.

sif adap replay pool.npz --run runs/replay        # curves.png, costs.png and premise.png in the folder
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def curves(summary: Mapping[str, Any], path: Path) -> None:
    """Draw, for each c_ver, the best fixed policy's success by budget, with the adaptive searches as points."""
    panels = summary["c_ver"]
    figure = Figure(figsize=(3.6 * len(panels) + 0.6, 3.6), layout="constrained")
    for axes, (c_ver, one) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        axes.plot(one["curve"]["budget"], one["curve"]["success_rate"], color="grey", label="best fixed (M, K)")
        points = {
            "SampleAware": one["sample_aware"],
            "ADAP, batch": one["adap"]["batch"],
            "ADAP, sequential": one["adap"]["sequential"],
            "balanced": one["balanced"],
        }
        for number, (name, row) in enumerate(points.items()):
            axes.plot(row["cost"]["value"], row["success_rate"], "o^sv"[number], color=f"C{number}", label=name)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("cost of a trial (mean)")
        axes.set_title(f"c_ver {c_ver}", fontsize=9)
    figure.axes[0].set_ylabel("success")
    figure.axes[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=150)


def costs(summary: Mapping[str, Any], path: Path) -> None:
    """Draw the mean cost of DAP_k by k beside the adaptive searches, with 95 % intervals over problems."""
    panels = summary["c_ver"]
    figure = Figure(figsize=(3.6 * len(panels) + 0.6, 3.6), layout="constrained")
    for axes, (c_ver, one) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        ks = [row["k"] for row in one["dap"]]
        axes.errorbar(ks, [row["cost"]["value"] for row in one["dap"]], _spans(one["dap"]), fmt="o-", label="DAP_k")
        lines = {
            "ADAP, batch": one["adap"]["batch"],
            "ADAP, sequential": one["adap"]["sequential"],
            "balanced": one["balanced"],
        }
        for number, (name, row) in enumerate(lines.items(), 1):
            axes.axhline(row["cost"]["value"], color=f"C{number}", label=name)
            axes.axhspan(row["cost"]["low"], row["cost"]["high"], color=f"C{number}", alpha=0.1)
        axes.set_yscale("log")
        axes.set_xlabel("groups k")
        axes.set_title(f"c_ver {c_ver}", fontsize=9)
    figure.axes[0].set_ylabel("cost (mean, 95 % over problems)")
    figure.axes[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=150)


def premise(summary: Mapping[str, Any], path: Path) -> None:
    """Draw pass rates by score bin, and the top k against k at random; nothing when no problem can tell."""
    found = summary["premise"]
    if not found["num_mixed"]:
        return
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    bins = found["bins"]
    rates = [row["pass_rate"] for row in bins]
    spans = [
        [max(0.0, row["pass_rate"] - row["low"]) for row in bins],
        [max(0.0, row["high"] - row["pass_rate"]) for row in bins],
    ]
    left.errorbar(range(1, len(bins) + 1), rates, spans, fmt="o-", markersize=3)
    left.set_xlabel("score bin, rising")
    left.set_ylabel("pass rate (95 %, samples)")
    for name in ("top", "random"):
        rows = [row[name] for row in found["top_k"]]
        ks = [row["k"] for row in found["top_k"]]
        right.plot(ks, [row["value"] for row in rows], "o-", markersize=3, label=f"{name} k")
        right.fill_between(ks, [row["low"] for row in rows], [row["high"] for row in rows], alpha=0.15)
    right.set_xscale("log", base=2)
    right.set_xlabel("k")
    right.set_ylabel("solved problems (95 %, problems)")
    right.legend(fontsize="x-small")
    figure.savefig(path, dpi=150)


def _spans(rows: list[dict[str, Any]]) -> list[list[float]]:
    values = [row["cost"] for row in rows]
    # A percentile interval of a constant can miss it by a rounding.
    return [
        [max(0.0, v["value"] - v["low"]) for v in values],
        [max(0.0, v["high"] - v["value"]) for v in values],
    ]
