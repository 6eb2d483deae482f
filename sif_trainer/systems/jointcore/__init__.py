"""JointCore: which few records of a memory does one decision need?

    sif jointcore exact                          the benchmark with a perfect judge, Table 1
    sif jointcore model jointcore/smollm2        a language model as the judge
    sif jointcore select records.jsonl ...       your own records, your own judge

`search.py` says how a selector asks, `published.py` and `stronger.py` hold the selectors, `tasks.py` and `oracle.py`
the benchmark, `exact.py`, `model.py` and `robustness.py` its stages, `select.py` the search on a user's own records.
"""

from sif_trainer.systems.jointcore.archive import read_archive
from sif_trainer.systems.jointcore.select import JointCore, Result

__all__ = ["JointCore", "Result", "read_archive"]
