"""A case's trace: every step in the order of its happening, so that a run can go on after a kill, or be replayed.

    trace = Trace(run.records("case-7"))                 # or Trace() in memory
    run_case(case, elicitor, environment, config, trace)
    run_case(case, NOBODY, NOBODY, config, Trace(records))       # replay: nothing is asked

A step that is recorded is read, not done again. A record holds the step's name, its value and, where a `meter` is
given, what the step used of it (calls, tokens). A step may be a batch of calls: those of them that were answered
before a kill are kept by the policy's cache (`load_policy(..., cache=...)`); a user's answer is a step of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, Protocol, TypeVar

from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.parts import Correct, Dimension, Question, Row, Skip, Stop, Table, UserReply

T = TypeVar("T")
Step = tuple[str, Callable[[], Any], Callable[[Any], Any]]
"""Name, what does it, and what reads its value from a record."""


class Journal(Protocol):
    """Where records go: `runs.records.Records`, or a list."""

    def append(self, record: dict[str, Any], /) -> None: ...

    def __iter__(self) -> Iterator[dict[str, Any]]: ...


class Trace:
    """Reads the steps that a journal holds, then does and appends the rest."""

    def __init__(self, journal: Journal | None = None, meter: Callable[[], Mapping[str, float]] | None = None) -> None:
        """`meter` returns growing counts, such as a policy's; each record tells by how much they grew."""
        self.journal: Journal = [] if journal is None else journal
        self.meter = meter or dict
        self._recorded = list(self.journal)
        self._place = 0

    @property
    def records(self) -> list[dict[str, Any]]:
        return list(self.journal)

    def step(self, name: str, make: Callable[[], Any], read: Callable[[Any], T]) -> T:
        """Return the recorded value of the next step, or make and record it.

        Raises `UserError` where another step is recorded at this place.
        """
        value: T = self.steps([(name, make, read)])[0]
        return value

    def steps(self, steps: Sequence[Step], concurrent: bool = False) -> list[Any]:
        """The same for steps that need nothing of one another, at the same time if `concurrent`."""
        values = [self._next(name) for name, _, _ in steps[: len(self._recorded) - self._place]]
        rest = steps[len(values) :]
        before = dict(self.meter())
        for (name, _, _), value in zip(rest, _do([make for _, make, _ in rest], concurrent), strict=True):
            record: dict[str, Any] = {"step": name, "value": encode(value)}
            now = dict(self.meter())
            if used := {key: now[key] - before.get(key, 0) for key in now if now[key] != before.get(key, 0)}:
                record["used"] = used
            before = now
            self.journal.append(record)
            values.append(record["value"])
        return [read(value) for (_, _, read), value in zip(steps, values, strict=True)]

    def _next(self, name: str) -> Any:
        record = self._recorded[self._place]
        self._place += 1
        if record.get("step") != name:
            raise UserError(
                f"record {self._place} of this trace is '{record.get('step')}' where '{name}' is due; "
                "it belongs to other settings or another case: delete it, or go on with those"
            )
        return record["value"]


def _do(makes: Sequence[Callable[[], Any]], concurrent: bool) -> Iterable[Any]:
    """Yield the results in order: one after another, each only when it is wanted, or all from threads."""
    if not concurrent or len(makes) < 2:
        return (make() for make in makes)
    with ThreadPoolExecutor(len(makes)) as pool:
        return [future.result() for future in [pool.submit(make) for make in makes]]


class Nobody:
    """Elicitor and environment of a replay: whoever is asked here, the trace is not complete."""

    concurrent = False

    def __getattr__(self, name: str) -> NoReturn:
        raise UserError(
            f"the trace ends before '{name}'; it is of a run that has not finished, so it can't be replayed"
        )


NOBODY: Any = Nobody()


def encode(value: Any) -> Any:
    """Return a value as JSON has it: a named tuple as an object, a command of the user with its name."""
    if isinstance(value, Skip | Stop | Correct):
        return {"command": type(value).__name__, **value._asdict()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: encode(item) for key, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


def read_dimension(value: Mapping[str, Any]) -> Dimension:
    return Dimension(value["name"], tuple(value["values"]), value["reason"])


def read_question(value: Mapping[str, Any]) -> Question:
    return Question(value["text"], tuple(value["choices"]), value["reason"], value["cost"])


def read_row(value: Mapping[str, Any]) -> Row:
    return Row(*(tuple(value[name]) for name in Row._fields))


def read_table(value: Sequence[Mapping[str, Any]]) -> Table:
    return tuple(map(read_row, value))


def read_reply(value: Any) -> UserReply:
    if isinstance(value, str):
        return value
    fields = {key: item for key, item in value.items() if key != "command"}
    reply: UserReply = {"Skip": Skip, "Stop": Stop, "Correct": Correct}[value["command"]](**fields)
    return reply


def each(read: Callable[[Any], T]) -> Callable[[Sequence[Any]], list[T]]:
    """Return what reads a list of such values."""
    return lambda values: [read(value) for value in values]
