"""One self-contained HTML page of one or several runs. `sif report` writes it.

    write_page([read_run(Path("runs/train/smoke/quickstart"))], Path("report.html"))

The page opens from disk and asks for nothing: styles, scripts (plotly.js among them) and data are in it, and its
content security policy lets nothing else in and nothing out. Data reach the page as JSON and are shown as text; no
script runs but those whose hashes the policy names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from sif_trainer import __version__
from sif_trainer.report.blocks import Plot, Section, Table
from sif_trainer.report.completions import Group, spread, visible
from sif_trainer.report.kinds import kind_of
from sif_trainer.report.run import Run, with_labels
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.records import strict_json, write_atomically

MOST_COMPLETION_BYTES = 12_000_000  # of all runs together; with plotly.js, a page stays below 25 MB
_TEMPLATES = files("sif_trainer.report") / "templates"


def write_page(runs: Sequence[Run], path: Path) -> None:
    """Write the page of the runs; several are compared.

    Raises:
        UserError: for a run that no page is made for, or one that is given twice.
    """
    from jinja2 import Environment

    if len({run.path.resolve() for run in runs}) < len(runs):
        raise UserError("a run is given twice; name every run once")
    runs = with_labels(runs)
    by_kind: dict[str, list[Run]] = {}
    for run in runs:
        by_kind.setdefault(kind_of(run).name, []).append(run)
    sections = [section for same in by_kind.values() for section in kind_of(same[0]).sections(same)]
    plots: list[Plot] = []
    browser = _browser(runs)
    scripts = [_file("page.js"), _file("browser.js")]
    scripts = [_plotly(), *scripts] if browser["groups"] or any(_plots(sections)) else scripts
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_file("page.html.j2"))
    html = template.render(
        title=" and ".join(run.label for run in runs) if len(runs) < 4 else f"{len(runs)} runs",
        runs=[_about(run) for run in runs],
        differing=_differing(runs),
        sections=[_laid_out(section, plots) for section in sections],
        browser=browser,
        style=_file("page.css"),
        scripts=scripts,
        policy=_policy(scripts),
        data=_embedded({"plots": [asdict(plot) for plot in plots], "browser": browser}),
        version=__version__,
    )
    write_atomically(path, html)


def _plots(sections: Sequence[Section]) -> list[Plot]:
    return [part for section in sections for part in section.parts if isinstance(part, Plot)]


def _laid_out(section: Section, plots: list[Plot]) -> dict[str, Any]:
    """Number the section's plots, which the script draws, and keep its order."""
    parts: list[dict[str, Any]] = []
    for part in section.parts:
        if isinstance(part, Table):
            parts.append({"table": part})
        else:
            parts.append({"plot": part, "number": len(plots)})
            plots.append(part)
    return {"title": section.title, "texts": section.texts, "parts": parts}


def _about(run: Run) -> dict[str, Any]:
    """What was run, and what it came to."""
    kind, starts = kind_of(run), run.manifest["starts"]
    last = starts[-1]
    hardware = f"{last['num_cpus']} CPU cores" + (f", {', '.join(last['gpus'])}" if last["gpus"] else "")
    processes = f", {last['num_processes']} processes" if last["num_processes"] > 1 else ""
    facts = {
        "command": last.get("command_line") or f"sif {run.manifest['command']}",
        "model": run.config.get("model"),
        "rule": run.config.get("feedback"),
        "seed": run.manifest["seed"],
        "started": f"{starts[0]['at']}" + (f", {len(starts)} starts" if len(starts) > 1 else ""),
        "versions": ", ".join(f"{name} {version}" for name, version in last["versions"].items()),
        "commit": last["git"] and last["git"][:12] + ("-dirty" if last["git"].endswith("-dirty") else ""),
        "hardware": f"{hardware}{processes}; {last['platform']}, Python {last['python']}",
        "folder": str(run.path),
    }
    if run.manifest.get("trains_on_reference_answers"):
        facts["answers"] = "this rule's reward reads the reference answers: it is no label-free training"
    return {
        "label": run.label,
        "kind": kind.name,
        "verdict": kind.verdict(run),
        "finished": run.finished,
        "last_record": run.last_record.strftime("%Y-%m-%d %H:%M UTC"),
        "facts": {name: value for name, value in facts.items() if value is not None},
        "paper_diff": None
        if run.paper_diff is None
        else [
            [key, *(_shown(sides, side) for side in ("here", "reference"))] for key, sides in run.paper_diff.items()
        ],
        "config": [[key, _shown(run.config, key)] for key in sorted(run.config)],
    }


def _shown(values: Mapping[str, Any], key: str) -> str:
    return visible(json.dumps(values[key], ensure_ascii=False)) if key in values else "not set"


def _differing(runs: Sequence[Run]) -> list[list[str]]:
    """Settings in which runs that are shown together differ: a row each, the runs as columns."""
    settings = [{**run.config, "seed": run.manifest["seed"], "command": run.manifest["command"]} for run in runs]
    rows = []
    for key in sorted(set().union(*settings)):
        values = [_shown(each, key) for each in settings]
        if len(set(values)) > 1:
            rows.append([key, *values])
    return rows


def _browser(runs: Sequence[Run]) -> dict[str, Any]:
    """The completions that the page holds, and how many there are."""
    sources = [(run, kind_of(run).groups) for run in runs]
    found = [(run, groups) for run, read in sources if read is not None and len(groups := read(run))]
    budget = MOST_COMPLETION_BYTES // max(len(found), 1)
    shown, notes = [], []
    for run, groups in found:
        chosen = spread(groups, budget)
        mine = [groups[index] for index in chosen]
        shown += [{"run": run.label, **_plain(group)} for group in mine]
        notes.append(_coverage(run, sum(len(group.members) for group in mine), len(mine), len(groups)))
    return {"groups": shown, "notes": notes}


def _coverage(run: Run, num_completions: int, num_shown: int, num_groups: int) -> str:
    if num_shown == num_groups:
        return f"{run.label}: all recorded completions, {num_completions:,} in {num_groups:,} groups."
    if not num_shown:
        return f"{run.label}: none of {num_groups:,} recorded groups fits the page; sif view {run.path} shows them."
    return (
        f"{run.label}: {num_completions:,} completions, {num_shown:,} of {num_groups:,} recorded groups: the first, "
        f"the last, and an even choice between them, so that the page stays small. sif view {run.path} shows all."
    )


def _plain(group: Group) -> dict[str, Any]:
    """A group as the page's script reads it; a text whose tokens are there is not said twice."""
    members = []
    for member in group.members:
        plain = {key: value for key, value in vars(member).items() if value not in (None, (), 0)}
        if "tokens" in plain:
            del plain["text"]
        if "profile" in plain:
            plain["profile"] = [round(value, 4) for value in plain["profile"]]
        members.append(plain)
    return {**vars(group), "members": members}


def _embedded(value: Any) -> str:
    """JSON that can stand in a script element: it holds no `<`, so that no text can end the element."""
    return strict_json(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _policy(scripts: Sequence[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
