"""What a shown prompt says, read literally, where that may differ from the oracle on the kept set.

Two of the published ways to omit a record change the question itself. Under `deletion` a rule like "all channel
records are valid" turns vacuously true when the channel's records are gone (our wording states their number, the
published one does not). Under `counterfactual`, flipping two dropped key flags can leave exactly one ON.
`shown_truth` reads the records as shown, so that both readings can be reported.
"""

from __future__ import annotations

from sif_trainer.systems.jointcore.oracle import quorum
from sif_trainer.systems.jointcore.prompts import Question, shown_records
from sif_trainer.systems.jointcore.tasks import CASE_FIELDS


def shown_truth(question: Question, vacuous: bool = False) -> bool:
    """Return whether the shown records meet the family's rule; `vacuous` leaves out how many there must be."""
    task, size = question.task, len(question.task.support)
    records = shown_records(question)

    def values(kind: str) -> list[str]:
        return [record.value for record in records if record.type == kind]

    def all_valid(kind: str, num: int) -> bool:
        return all(v == "VALID" for v in values(kind)) and (vacuous or len(values(kind)) == num)

    if task.family == "single_variable":
        return "ALLOW" in values("authorization")
    if task.family == "redundant_or":
        return "ALLOW" in values("approval")
    if task.family == "threshold":
        return values("approval").count("ALLOW") >= quorum(size)
    if task.family == "synergy_xor":
        flags = [value for value in values("key_flag") if value in ("ON", "OFF")]
        return len(flags) == size and flags.count("ON") == 1
    if task.family == "multiple_minimal_sets":
        return all_valid("channel_a", size // 2) or all_valid("channel_b", size // 2)
    if task.family == "harmful_stale":
        current_and_stale = "ALLOW" in values("authorization") and "BLOCK" in values("stale_policy")
        return current_and_stale and all_valid("support", size - 2)
    return all(value in values(name) for name, value in CASE_FIELDS[:size])
