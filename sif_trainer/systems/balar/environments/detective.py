"""AR-Bench detective cases: five suspects are questioned, one of them did it.

Reads `data/dc/test.json` of the benchmark, and rows selected from it (keys `case`, `candidates`, `users`, `answer`).
Suspects and options follow the shuffled list of the initial information. The order of generation, in which the
murderer always comes first, is never read: the paper's released loader takes options and users from it.
"""

from __future__ import annotations

from typing import Any

from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.parts import Case, Private, User

ROLE = (
    "You play one suspect of a murder case who is being questioned by a detective. Stay in character and answer in "
    "the first person, in one or two sentences, with what your character would say. If your instructions make you the "
    "murderer you may deflect, but never contradict your story; if not, be honest. Say nothing that was not asked."
)


def fits(row: Any) -> bool:
    """Whether this is a row of the benchmark's file, or one selected from it."""
    return isinstance(row, dict) and (
        {"initial_information", "suspects"} <= row.keys() or {"case", "users"} <= row.keys()
    )


def read(row: dict[str, Any], number: int) -> Instance:
    """Return the case of a row."""
    scene, suspects, answer = _parts(row)
    users = tuple(User(suspect["name"], suspect["introduction"]) for suspect in suspects)
    victim = scene["victim"]
    context = "\n".join(
        [
            f"Time: {scene['time']}",
            f"Place: {scene['location']}",
            f"Victim: {victim['name']}. {victim['introduction']}",
            f"Cause of death: {victim['cause_of_death']}",
            f"Murder weapon: {victim['murder_weapon']}",
            "Suspects:",
            *(f"- {user.name}: {user.public}" for user in users),
        ]
    )
    names = tuple(user.name for user in users)
    return Instance(
        case=Case(
            id=str(row.get("uid", f"detective-{number}")),
            task=f"Exactly one of these suspects is the murderer. Who is it: {', '.join(names)}?",
            context=context,
            users=users,
            options=names,
        ),
        secrets={
            suspect["name"]: Private(
                f"You are {suspect['name']}. {suspect['task']}\n\nYour story:\n{suspect['story']}"
            )
            for suspect in suspects
        },
        role=ROLE,
        answer=Private(answer),
    )


def _parts(row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]], str]:
    """Return the scene, the suspects in shuffled order (name, introduction, task, story), and the murderer's name."""
    if "initial_information" in row:
        known = {suspect["name"]: suspect for suspect in row["suspects"]}
        order = [suspect["name"] for suspect in row["initial_information"]["suspect"]]
        return row, [known[name] for name in order], order[row["label"]]
    people = {user["name"]: {**user["public"], **user["private"]} for user in row["users"]}
    return row["case"], [people[name] for name in row["candidates"]], row["answer"]
