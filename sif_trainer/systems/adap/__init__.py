"""ADAP: draw candidates, rank them, verify the best, until one passes, at a cost near the least possible.

    sif adap plan --c-rew 1 --c-ver 10           how many, round after round
    sif adap replay pool.npz                     on recorded samples, beside the baselines
    sif adap search adap/cipher                  on a live policy

`schedule.py` and `theory.py` hold the mathematics, `rules.py` the rounds; `parts.py` says what a search is made of,
`search.py`, `budget.py` and `journal.py` do it; `samplers.py`, `scorers.py` and `verifiers.py` are the parts that come
along. `trials.py`, `replay.py`, `baselines.py` and `premise.py` are the replay, `simulate.py` the competitive ratio.
"""

from sif_trainer.systems.adap.asynchronous import search_async
from sif_trainer.systems.adap.budget import Budget
from sif_trainer.systems.adap.journal import Journal
from sif_trainer.systems.adap.parts import Candidate, Problem, Verdict
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.search import How, Result, search, search_many

__all__ = [
    "Budget",
    "Candidate",
    "Costs",
    "How",
    "Journal",
    "Problem",
    "Result",
    "Verdict",
    "search",
    "search_async",
    "search_many",
]
