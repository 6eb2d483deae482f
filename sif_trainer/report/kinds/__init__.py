"""One small file per kind of run: its verdict in a sentence, its sections, and the completions that can be browsed.

A new kind is a file with `verdict(run)` and `sections(runs)`, and a line in `KINDS`. `sections` gets all of a page's
runs of that kind, so that comparing runs is drawing several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sif_trainer.report.blocks import Section
from sif_trainer.report.completions import Groups
from sif_trainer.report.kinds import adap, adapt, balar, eval, jointcore, probe, study, train
from sif_trainer.report.run import Run
from sif_trainer.runs.errors import UserError


@dataclass(frozen=True)
class Kind:
    """What a page shows of the runs of one command."""

    name: str
    verdict: Callable[[Run], str]
    """What a finished run came to, or how far an unfinished one got, in a sentence or two."""
    sections: Callable[[Sequence[Run]], list[Section]]
    groups: Callable[[Run], Groups] | None = None
    """The completions of a run, by prompt; None where such runs keep none."""


KINDS = {  # by command
    "train": Kind("training run", train.verdict, train.sections, train.groups),
    "adapt": Kind("adaptation", adapt.verdict, adapt.sections, train.groups),
    "eval": Kind("evaluation", eval.verdict, eval.sections, eval.groups),
    "study": Kind("comparison study", study.verdict, study.sections),
    "probe": Kind("probe", probe.verdict, probe.sections, probe.groups),
    "jointcore": Kind("JointCore run", jointcore.verdict, jointcore.sections),
    "balar": Kind("BALAR run", balar.verdict, balar.sections),
    "adap": Kind("ADAP run", adap.verdict, adap.sections, adap.groups),
}


def kind_of(run: Run) -> Kind:
    """Return how runs of this command are shown.

    Raises:
        UserError: for a command that no page is made for.
    """
    if run.kind not in KINDS:
        raise UserError(f"{run.path} is a run of `sif {run.kind}`; there are pages for {', '.join(KINDS)}")
    return KINDS[run.kind]
