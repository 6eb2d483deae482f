"""BALAR: what should be asked, and of whom, before a question is answered?

    sif balar run RECIPE          a study: cases, a model, a simulator of users, baselines
    sif balar chat RECIPE         you are the user, and see the belief change

`parts.py` says what an agent may read, `loop.py` runs a case, `belief.py` and `selection.py` hold the mathematics,
`elicitation.py` and `labels.py` get the numbers from a language model.
"""

from sif_trainer.systems.balar.config import BalarConfig
from sif_trainer.systems.balar.loop import Trajectory, run_case
from sif_trainer.systems.balar.parts import Case, Dimension, Elicitor, Environment, Private, Question, Row, User
from sif_trainer.systems.balar.trace import NOBODY, Trace

__all__ = [
    "NOBODY",
    "BalarConfig",
    "Case",
    "Dimension",
    "Elicitor",
    "Environment",
    "Private",
    "Question",
    "Row",
    "Trace",
    "Trajectory",
    "User",
    "run_case",
]
