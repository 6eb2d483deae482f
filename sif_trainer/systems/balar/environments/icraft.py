"""MediQ's iCraft-MD: which of four diagnoses fits a patient of whom only the first sentence is known?

Reads `data/all_craft_md.jsonl` of MediQ, and rows selected from it. Texts and labels are as they come: in the complete
file the answer of case 112 is none of its options, so that no agent can solve it.
"""

from __future__ import annotations

from typing import Any

from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.parts import Case, Private, User

ROLE = (
    "You are the patient described in a medical record. Answer the doctor's question from the record alone, in one or "
    "two plain sentences. If the record does not say it, say that you do not know. Volunteer nothing else."
)


def fits(row: Any) -> bool:
    """Whether this is a row of MediQ's file, or one selected from it."""
    return isinstance(row, dict) and {"question", "options", "context", "patient", "facts"} <= row.keys()


def read(row: dict[str, Any], number: int) -> Instance:
    """Return the case of a row."""
    options = tuple(row["options"].values())
    known = f"Age: {row['patient']['age']}. Gender: {row['patient']['gender']}. {row['context'][0]}"
    patient = User("patient", f"The patient. {known}")
    return Instance(
        case=Case(
            id=str(row.get("uid", f"icraft-{row.get('id', number)}")),
            task=f"{row['question']} The options: {'; '.join(options)}.",
            context=f"What is known of the patient. {known}",
            users=(patient,),
            options=options,
        ),
        secrets={patient.name: Private(f"{known}\nThe record:\n" + "\n".join(row["facts"]))},
        role=ROLE,
        answer=Private(row["answer"]),
    )
