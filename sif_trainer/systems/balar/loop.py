"""BALAR's loop: ask what tells most, update the belief, expand where the questions cannot suffice, stop when certain.

    trajectory = run_case(case, PolicyElicitor(policy, config), environment, config, Trace(run.records("case-7")))
    sif balar run RECIPE

With `NOBODY` for elicitor and environment it replays a finished trace. Differs from the released code in that the
first dimensions obey the bound on states, that a failed expansion is not tried again, and that a person may skip a
question, correct an answer or stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.belief import num_within
from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.parts import (
    Case,
    Correct,
    Dimension,
    Elicitor,
    Environment,
    Exchange,
    Log,
    Question,
    Row,
    Skip,
    Stop,
    Triple,
    User,
    UserReply,
    plain,
)
from sif_trainer.systems.balar.selection import wants_expansion
from sif_trainer.systems.balar.state import Snapshot, State
from sif_trainer.systems.balar.trace import (
    Trace,
    each,
    read_dimension,
    read_question,
    read_reply,
    read_row,
    read_table,
)

Watch = Callable[[Snapshot], None]


@dataclass(frozen=True)
class Trajectory:
    """How a case went. `snapshots` has one at the start and one after each round."""

    case_id: str
    answer: str
    ended_by: str
    """`certain`, `exhausted` (no open question, no room to expand), `max_asks`, `max_rounds` or `user`.

    A case that its last question makes certain is `certain`.
    """
    snapshots: tuple[Snapshot, ...]
    questions: tuple[Question, ...]
    cost: float
    """Of all questions put."""
    num_skips: int

    @property
    def last(self) -> Snapshot:
        return self.snapshots[-1]

    @property
    def log(self) -> tuple[Exchange, ...]:
        return self.last.log

    def after(self, num_asks: int) -> Snapshot:
        """Return the belief after so many questions and before the next round (Figure 9), or else the last.

        A correction counts from the round in which it was made.
        """
        for snapshot in self.snapshots:
            if snapshot.num_asks == num_asks:
                return snapshot
        return self.last


def run_case(
    case: Case,
    elicitor: Elicitor,
    environment: Environment,
    config: BalarConfig,
    trace: Trace | None = None,
    watch: Watch | None = None,
) -> Trajectory:
    """Run one case to its final answer.

    Args:
        case: what the agent may read.
        elicitor: where dimensions, questions and tables come from.
        environment: who answers.
        config: the settings.
        trace: what was done before; steps that it holds are read instead of done again.
        watch: is shown each snapshot as it is made.

    Raises:
        UserError: the elicitor's model gives no usable reply, or the trace is of another run.
        ValueError: an elicitor of yours returns what is no distribution.
    """
    return CaseRun(case, elicitor, environment, config, Trace() if trace is None else trace, watch).run()


class CaseRun:
    """One run of the loop; a subclass that decides otherwise makes another agent of the same bank and belief."""

    def __init__(
        self,
        case: Case,
        elicitor: Elicitor,
        environment: Environment,
        config: BalarConfig,
        trace: Trace,
        watch: Watch | None,
    ) -> None:
        self.case = case
        self.elicitor = elicitor
        self.environment = environment
        self.config = config
        self.trace = trace
        self.watch = watch
        self.snapshots: list[Snapshot] = []
        self.may_expand = True
        self.num_skips = 0

    def run(self) -> Trajectory:
        self._initialise()
        self._show()
        ended_by = self._rounds()
        answer = self.trace.step("final_answer", self._final_answer, str)
        costs = [question.cost * user.cost for question, user in map(self.state.pair, self.state.spent)]
        return Trajectory(
            case_id=self.case.id,
            answer=answer,
            ended_by=ended_by,
            snapshots=tuple(self.snapshots),
            questions=tuple(self.state.questions),
            cost=sum(costs),
            num_skips=self.num_skips,
        )

    def _final_answer(self) -> str:
        last = self.snapshots[-1]
        answer = self.elicitor.final_answer(self.case, last.state, last.log)
        if self.case.options is not None and answer not in self.case.options:
            raise ValueError(f"the final answer {answer!r} is none of the options of case '{self.case.id}'")
        return answer

    def _initialise(self) -> None:
        """Make everything that needs no conversation (the sleep-time stage); three calls follow one another."""
        case, config, elicitor = self.case, self.config, self.elicitor
        proposed = self.trace.step("dimensions", lambda: elicitor.dimensions(case), each(read_dimension))
        num_kept = num_within([len(dimension.values) for dimension in proposed], config.max_states)
        if not num_kept:
            raise UserError(
                f"the first dimension of case '{case.id}' has {config.max_states} values or more; raise max_states"
            )
        dimensions = proposed[:num_kept]
        steps: list[Any] = [
            ("priors", lambda: elicitor.priors(case, dimensions, ()), each(read_row)),
            ("questions", lambda: elicitor.questions(case, dimensions), each(read_question)),
        ]
        if case.options is not None:
            steps.append(("answer_tables", lambda: elicitor.answer_tables(case, dimensions), each(read_table)))
        priors, questions, *answers = self.trace.steps(steps, elicitor.concurrent)
        self.state = State(case, config, dimensions, priors)
        for tables in answers:
            self.state.add_answer_tables(tables)
        self._add_questions(questions, ())

    def _rounds(self) -> str:
        """Ask and expand until the end, and return what ended it."""
        state, config = self.state, self.config
        while state.num_rounds < config.max_rounds and len(state.spent) < config.max_asks:
            decision = self.trace.step("round", self._decide, dict)
            if decision["action"] == "stop":
                return str(decision["reason"])
            if decision["action"] == "expand":
                self._expand()
            elif not self._ask(decision["pair"]):
                return "user"
            state.num_rounds += 1
            self._show()
        if state.is_certain():  # by the last answer
            return "certain"
        return "max_rounds" if len(state.spent) < config.max_asks else "max_asks"

    def _decide(self) -> dict[str, Any]:
        """Say what this round does (section 4.5)."""
        state, config = self.state, self.config
        if state.is_certain():
            return {"action": "stop", "reason": "certain"}
        found = state.best()
        can_expand = self.may_expand and state.can_expand()
        number = state.num_rounds + 1
        known = {"round": number, "gap": state.gap}
        if found is None:
            return {"action": "expand", **known} if can_expand else {"action": "stop", "reason": "exhausted"}
        pair, choice = found
        by_rounds = config.budget == "rounds"
        left = config.max_rounds - number if by_rounds else config.max_asks - len(state.spent)
        expand = can_expand and wants_expansion(state.gap, choice.most_information, left, config.kappa)
        known |= {"pair": pair, "information": choice.information, "most_information": choice.most_information}
        return {"action": "expand" if expand else "ask", **known}

    def _ask(self, pair: int) -> bool:
        """Put a question and learn from the answer; False where the user wants to stop."""
        state = self.state
        question, user = state.pair(pair)
        while isinstance(reply := self.trace.step("reply", lambda: self._reply(question, user), read_reply), Correct):
            earlier, _ = state.pair(state.told[reply.number].pair)
            state.correct(reply.number, reply.answer, self._soft_map(earlier, reply.answer))
            self.snapshots.pop()  # what was believed before is not the belief after this round any more
            self._show()
        if isinstance(reply, Stop):
            return False
        if isinstance(reply, Skip):
            self.num_skips += 1
        else:
            state.tell(pair, reply, self._soft_map(question, reply))
        state.spent.add(pair)
        return True

    def _reply(self, question: Question, user: User) -> UserReply:
        """Ask, and refuse what is no reply before it is recorded."""
        free = self.config.answer_mode == "free"
        reply = self.environment.ask(self.case, user, question, free)
        if isinstance(reply, Correct):
            if not 0 <= reply.number < len(self.state.told):
                raise UserError(
                    f"there is no answer number {reply.number} to correct; they count from 0, and "
                    f"{len(self.state.told)} were given"
                )
        elif isinstance(reply, str):
            if not reply.strip():
                return Skip()
            if not free and reply not in question.choices:
                raise ValueError(f"{user.name} answered {reply!r}, which is none of the choices {question.choices}")
        return reply

    def _soft_map(self, question: Question, answer: str) -> Row:
        return self.trace.step("soft_map", lambda: self.elicitor.soft_map(self.case, question, answer), read_row)

    def _expand(self) -> None:
        """Add a dimension, its tables and new questions about it (section 4.5)."""
        state, config, elicitor, case = self.state, self.config, self.elicitor, self.case
        log = state.log
        # Past answers that will speak of the new dimension themselves must not shape its prior and tables as well.
        seen: Log = () if config.replay else log
        known = tuple(state.dimensions)
        found: list[Dimension] = self.trace.step(
            "new_dimension",
            lambda: [new for new in [elicitor.new_dimension(case, known, log)] if new is not None],
            each(read_dimension),
        )
        if not found or plain(found[0].name) in {plain(dimension.name) for dimension in known}:
            self.may_expand = False
            return
        new = found[0]._replace(values=found[0].values[: config.max_values])
        keeps_all = config.replay or not config.skip_spent_tables
        pairs = state.pairs_of(range(len(state.questions))) if keeps_all else state.open_pairs()
        triples = [Triple(*state.pair(pair), new) for pair in pairs]
        focus = [new, *state.uncertain(config.num_uncertain)]
        asked = tuple(state.questions)
        steps: list[Any] = [
            ("priors", lambda: elicitor.priors(case, [new], seen), each(read_row)),
            ("new_questions", lambda: elicitor.new_questions(case, focus, asked, log), each(read_question)),
            ("tables", lambda: elicitor.tables(case, triples, seen), each(read_table)),
        ]
        if case.options is not None:
            steps.append(("answer_tables", lambda: elicitor.answer_tables(case, [new]), each(read_table)))
        (prior,), questions, tables, *answers = self.trace.steps(steps, elicitor.concurrent)
        state.add_dimension(new, prior)
        for own in answers:
            state.add_answer_tables(own)
        for pair, table in zip(pairs, tables, strict=True):
            state.add_tables(pair, [table])
        if config.replay:
            state.replay()
        self._add_questions(questions[: config.num_new_questions], log)

    def _add_questions(self, questions: Sequence[Question], log: Log) -> None:
        """Add questions with their tables for every user and dimension."""
        state = self.state
        known = {plain(question.text) for question in state.questions}
        pairs = state.add_questions([question for question in questions if plain(question.text) not in known])
        if not pairs:
            return
        triples = [Triple(*state.pair(pair), dimension) for pair in pairs for dimension in state.dimensions]
        tables = self.trace.step("tables", lambda: self.elicitor.tables(self.case, triples, log), each(read_table))
        size = len(state.dimensions)
        for number, pair in enumerate(pairs):
            state.add_tables(pair, tables[number * size : (number + 1) * size])

    def _show(self) -> None:
        self.snapshots.append(self.state.snapshot())
        if self.watch is not None:
            self.watch(self.snapshots[-1])
