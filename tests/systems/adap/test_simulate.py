"""The simulated competitive ratio: against searches one by one, between the optimum and the theorem."""

from __future__ import annotations

import numpy as np
import pytest

from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.adap import Candidate, Costs, How, Problem, Verdict, search
from sif_trainer.systems.adap.simulate import (
    THEOREM,
    SimulateConfig,
    expected_cost,
    random_instance,
    run_simulation,
    simulate,
)
from sif_trainer.systems.adap.theory import Discrete


class World:
    """Draws of a known distribution, as the parts of a search."""

    relative = False

    def __init__(self, known, seed):
        self.known, self.rng = known, np.random.default_rng(seed)

    def draw(self, problem, num, first):
        for index, atom in enumerate(self.rng.choice(len(self.known.p), size=num, p=self.known.p), first):
            yield Candidate(str(atom), index)

    def score(self, problem, candidates):
        return [float(candidate.text) for candidate in candidates]

    def verify(self, problem, candidate, *, cancel=None):
        return Verdict("pass" if self.rng.random() < self.known.h[int(candidate.text)] else "fail")


@pytest.mark.parametrize("costs", [Costs.of(1, 10), Costs.of(4, 1)])
def test_the_expectation_is_that_of_real_searches(costs):
    known = Discrete.of([0.6, 0.3, 0.1], [0.0, 0.05, 0.5])
    batch, sequential = expected_cost(known, costs, 2000, np.random.default_rng(0))
    for mode, wanted in (("batch", batch), ("sequential", sequential)):
        paid = []
        for seed in range(400):
            world = World(known, seed)
            paid.append(search(Problem("p", ""), world, world, world, costs, how=How(mode=mode)).cost)
        error = np.std(paid) / 20
        assert abs(np.mean(paid) - wanted) < 4 * error


def test_instances_rise_and_can_be_solved():
    rng = np.random.default_rng(1)
    for _ in range(300):
        known, costs = random_instance(rng)
        assert (np.diff(known.h) >= 0).all() and known.h[-1] > 0
        assert known.optimum(costs).cost < np.inf


def test_between_the_optimum_and_the_theorem(tmp_path):
    config = SimulateConfig(num_instances=200, num_runs=10)
    ratios = simulate(config)
    assert ratios.batch.max() < THEOREM
    assert (ratios.sequential <= ratios.batch * (1 + 1e-9)).all()
    # The optimum may draw for ever and stop at once; a search pays for its whole first round.
    assert ratios.sequential.min() > 0.95
    run = RunFolder.open(tmp_path / "run", "adap simulate", {})
    summary = run_simulation(run, config)
    assert summary["batch"]["worst"] == ratios.batch.max() == run_simulation(run, config)["batch"]["worst"]


def test_a_sure_pass_costs_one_round():
    batch, sequential = expected_cost(Discrete.of([1], [1]), Costs.of(1, 10), 3, np.random.default_rng(0))
    assert (batch, sequential) == (8 + 60, 8 + 10)


@pytest.mark.parametrize("name", ["num_instances", "num_runs"])
def test_numbers_are_at_least_one(name):
    with pytest.raises(ValueError, match=name):
        SimulateConfig(**{name: 0})
