"""A study: every method solves every case, with the same users and the same budget of questions.

    sif balar run balar/smollm2_icraft data=icraft_md.json
    run_study(RunFolder.open(...), recipe)

`cases.jsonl` has one record per method and case, `traces/` each case's steps, `calls.sqlite` the models' replies: a
run that is killed at any moment goes on at the call it was at. A case for which a model gives no usable reply is
recorded with the error and counts as wrong; when a method's first cases all end so, the run stops and says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from sif_trainer.policy import PromptTooLong
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.progress import Progress
from sif_trainer.runs.records import Records
from sif_trainer.systems.balar.agents import Agents, make_agents
from sif_trainer.systems.balar.baselines import STRATEGIES
from sif_trainer.systems.balar.baselines.conformal import right_probabilities, threshold
from sif_trainer.systems.balar.baselines.dialogue import Dialogue, Settings
from sif_trainer.systems.balar.baselines.random_bank import RandomBank
from sif_trainer.systems.balar.elicitation import NoValidReply
from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.environments.instances import load_instances
from sif_trainer.systems.balar.grading import grade
from sif_trainer.systems.balar.loop import run_case
from sif_trainer.systems.balar.parts import Case
from sif_trainer.systems.balar.recipe import BalarRecipe
from sif_trainer.systems.balar.state import Snapshot
from sif_trainer.systems.balar.summary import summarise
from sif_trainer.systems.balar.trace import Trace

MOST_FAILURES = 3
"""Cases without a usable reply, before any with one, that end a run."""
CALIBRATION = "conformal_calibration"


class Solved(NamedTuple):
    """How a method solved a case."""

    answer: str
    ended_by: str
    rounds: str
    """A letter for each: A asks, E expands."""
    num_asks: int
    num_skips: int
    earlier: Mapping[int, str]
    """The answers after so many questions, where more were put."""
    belief: Mapping[str, Any]


def run_study(run: RunFolder, recipe: BalarRecipe) -> dict[str, Any]:
    """Solve what the folder lacks, and return the summary.

    Raises:
        UserError: a bad data file, a model that cannot be loaded, or one that never gives a usable reply.
    """
    if not run.finished:
        loaded = load_instances(recipe.data_set, recipe.data)
        instances, rest = loaded[: recipe.limit], loaded[len(loaded[: recipe.limit]) :][: recipe.num_calibration]
        agents = make_agents(recipe, [*instances, *rest], run.path / "calls.sqlite")
        _refuse_other_models(run, sorted(policy.identity for policy in agents.policies))
        study = _Study(run, recipe, agents)
        settings = Settings(recipe.num_candidates, recipe.depth)
        if "conformal_pursuit" in recipe.methods:
            settings = Settings(recipe.num_candidates, recipe.depth, study.thresholds(rest))
        records = study.solve_all(instances, settings)
        run.finish(summarise(records, recipe.methods, recipe.rounds))
    return run.summary


class _Study:
    def __init__(self, run: RunFolder, recipe: BalarRecipe, agents: Agents) -> None:
        self.run, self.recipe, self.agents = run, recipe, agents
        (run.path / "traces").mkdir(exist_ok=True)

    def solve_all(self, instances: Sequence[Instance], settings: Settings) -> list[dict[str, Any]]:
        """Return one record per method and case."""
        cases = self.run.records("cases")
        records = {(record["method"], record["case"]): record for record in cases}
        wanted = [(method, instance) for method in self.recipe.methods for instance in instances]
        with Progress("balar", len(wanted), "case", done=len(records)) as progress:
            for method, instance in wanted:
                key = (method, instance.case.id)
                if key not in records:
                    records[key] = self._record(method, instance, settings)
                    cases.append(records[key])
                    progress.update(1, f"{method}: {_num_correct(records, method)}")
                _refuse_endless_failure([own for (name, _), own in records.items() if name == method])
        return list(records.values())

    def thresholds(self, instances: Sequence[Instance]) -> tuple[float, ...]:
        """Return conformal pursuit's threshold after each number of questions."""
        rows = []
        for instance in instances:
            dialogue = self._dialogue(CALIBRATION, instance, Settings())
            rows.append(right_probabilities(dialogue, instance.answer.reveal()))
        rows = [row for row in rows if row]
        if not rows:
            raise UserError("there are no cases behind the limit to calibrate conformal_pursuit on; lower limit")
        lengths = range(min(map(len, rows)))
        return tuple(threshold([row[k] for row in rows], self.recipe.alpha) for k in lengths)

    def _record(self, method: str, instance: Instance, settings: Settings) -> dict[str, Any]:
        trace = self._trace(method, instance)
        record: dict[str, Any] = {"method": method, "case": instance.case.id}
        try:
            solved = self._solve(method, instance, settings, trace)
            verdicts = {
                k: self._graded(trace, instance, answer) for k, answer in {**solved.earlier, -1: solved.answer}.items()
            }
        except (NoValidReply, PromptTooLong) as error:
            return {**record, "error": str(error), "correct": False, "used": _used(trace)}
        return {
            **record,
            **solved._asdict(),
            **verdicts.pop(-1),
            "earlier": {str(k): {"answer": solved.earlier[k], **verdict} for k, verdict in verdicts.items()},
            "used": _used(trace),
        }

    def _solve(self, method: str, instance: Instance, settings: Settings, trace: Trace) -> Solved:
        if method in STRATEGIES:
            return self._lead(STRATEGIES[method], self._dialogue(method, instance, settings, trace))
        case, elicitor, environment = instance.case, self.agents.elicitor, self.agents.environment
        if method == "balar":
            trajectory = run_case(case, elicitor, environment, self.recipe, trace)
        else:
            trajectory = RandomBank(case, elicitor, environment, self.recipe, trace, None).run()
        last = trajectory.last
        earlier = {k: self._earlier(case, trajectory.after(k), trace) for k in self.recipe.rounds if k < last.num_asks}
        belief = {
            "entropy": last.entropy,
            "state": {dimension.name: value for dimension, value in last.state},
            "options": last.option_probabilities,
        }
        rounds = _rounds(trace)
        return Solved(
            trajectory.answer, trajectory.ended_by, rounds, last.num_asks, trajectory.num_skips, earlier, belief
        )

    def _earlier(self, case: Case, then: Snapshot, trace: Trace) -> str:
        """Return the answer that the agent would have given at that moment (Figure 9)."""
        return trace.step("earlier_answer", lambda: self.agents.elicitor.final_answer(case, then.state, then.log), str)

    def _lead(self, strategy: Any, dialogue: Dialogue) -> Solved:
        answer = strategy(dialogue)
        if answer is None:
            answer = dialogue.answer()
        shown = [k for k in self.recipe.rounds if k < dialogue.num_asks]
        earlier = {k: dialogue.answer(dialogue.log_after(k), "earlier_answer") for k in shown}
        ended_by = "ready" if dialogue.goes_on else "max_asks"
        num_skips = dialogue.num_asks - len(dialogue.log)
        return Solved(answer, ended_by, "A" * dialogue.num_asks, dialogue.num_asks, num_skips, earlier, {})

    def _dialogue(self, method: str, instance: Instance, settings: Settings, trace: Trace | None = None) -> Dialogue:
        trace = trace or self._trace(method, instance)
        return Dialogue(instance.case, self.agents.speaker, self.agents.environment, self.recipe, trace, settings)

    def _graded(self, trace: Trace, instance: Instance, answer: str) -> dict[str, Any]:
        return trace.step("grade", lambda: grade(instance, answer, self.agents.judge), dict)

    def _trace(self, method: str, instance: Instance) -> Trace:
        return Trace(Records(self.run.path / "traces" / trace_name(method, instance.case.id)), self.agents.meter)


def trace_name(method: str, case_id: str) -> str:
    """Return the name of a case's trace: no two ids share one, whatever is in them."""
    return f"{method}.{quote(case_id, safe='')}.jsonl"


def _rounds(trace: Trace) -> str:
    letters = {"ask": "A", "expand": "E", "stop": ""}
    return "".join(letters[record["value"]["action"]] for record in trace.records if record["step"] == "round")


def _used(trace: Trace) -> dict[str, dict[str, float]]:
    """Return what agent, users and measuring (the judge, answers asked once more) have used."""
    parts = {"reply": "user", "grade": "measuring", "earlier_answer": "measuring"}
    used: dict[str, dict[str, float]] = {}
    for record in trace.records:
        own = used.setdefault(parts.get(record["step"], "agent"), {})
        for name, amount in record.get("used", {}).items():
            own[name] = own.get(name, 0) + amount
    return used


def _num_correct(records: Mapping[tuple[str, str], Mapping[str, Any]], method: str) -> str:
    own = [record["correct"] for (name, _), record in records.items() if name == method]
    return f"{sum(own)} of {len(own)} right"


def _refuse_other_models(run: RunFolder, identities: list[str]) -> None:
    """Remember which weights answer, so that one run never mixes two."""
    models = run.records("models")
    known = next(iter(models), None)
    if known is None:
        models.append({"identities": identities})
    elif known["identities"] != identities:
        raise UserError(
            f"this run began with the models {', '.join(known['identities'])}, not {', '.join(identities)}; "
            "choose another folder with --run"
        )


def _refuse_endless_failure(records: Sequence[Mapping[str, Any]]) -> None:
    if len(records) >= MOST_FAILURES and all("error" in record for record in records):
        raise UserError(
            f"none of {len(records)} cases had a usable reply; mend this and choose another folder with --run, since "
            f"this one keeps the replies: {records[-1]['error']}"
        )
