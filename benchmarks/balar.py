"""BALAR's speed: selection and update against a plain loop, and calls in flight at sleep time.

    python benchmarks/balar.py              # half a minute on one core
    python benchmarks/balar.py latency      # only the sleep-time stage

Selection and update: 10 questions of 4 choices for each of 5 users, beliefs of 1,024 and 16,384 states. The yardstick
(`tests/systems/balar/plain_loop.py`) loops over states in Python; both select from the state likelihoods of all pairs,
which are made once per expansion and timed apart (ours makes the asked pair's again for the update, and is timed with
that). CPU seconds of this process, the best of several.

Sleep time: a detective case's 277 calls, answered by a policy that takes two seconds for whatever it is sent at once.
The longest chain of dependent calls is three: dimensions, questions, tables. Priors and answer tables go beside them.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.systems.balar import BalarConfig, Case, User, run_case
from sif_trainer.systems.balar.belief import state_likelihood, update
from sif_trainer.systems.balar.elicitation import PolicyElicitor
from sif_trainer.systems.balar.selection import Bank, best
from sif_trainer.systems.balar.state import Snapshot

TESTS = Path(__file__).parents[1] / "tests" / "systems" / "balar"
NUM_PAIRS, NUM_CHOICES = 50, 4


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seconds(work: Callable[[], object], num: int) -> float:
    """Return the CPU seconds of the quickest of `num` runs."""
    times = []
    for _ in range(num):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def compare(num_dimensions: int) -> None:
    plain, shape = load("plain_loop"), [4] * num_dimensions
    generator = torch.Generator().manual_seed(1)
    tables = [
        [torch.rand(4, NUM_CHOICES, generator=generator, dtype=torch.float64).log_softmax(1).exp() for _ in shape]
        for _ in range(NUM_PAIRS)
    ]
    joint = torch.randn(shape, generator=generator, dtype=torch.float64)
    joint -= torch.logsumexp(joint.flatten(), 0)
    omega, is_open, costs, config = [0.7, 0.1, 0.1, 0.1], [True] * NUM_PAIRS, [1.0] * NUM_PAIRS, BalarConfig()
    belief = joint.exp().flatten().tolist()
    bank = Bank(shape, tables)
    rows = [plain.likelihoods(shape, [table.tolist() for table in own]) for own in tables]

    found = best(bank, joint, is_open, costs, config, 25)
    place, information = plain.best(belief, rows)
    assert place == found.place
    assert torch.allclose(bank.information(joint), torch.tensor(information, dtype=torch.float64), atol=1e-10)
    posterior = torch.tensor(plain.update(belief, rows[place], omega), dtype=torch.float64)
    assert torch.allclose(update(joint, state_likelihood(tables[place]), omega).exp().flatten(), posterior, atol=1e-12)

    ours = {
        "build": seconds(lambda: Bank(shape, tables), 5),
        "select": seconds(lambda: best(bank, joint, is_open, costs, config, 25), 20),
        "update": seconds(lambda: update(joint, state_likelihood(tables[place]), omega), 20),
    }
    loop = {
        "build": seconds(lambda: plain.likelihoods(shape, [table.tolist() for table in tables[0]]), 1) * NUM_PAIRS,
        "select": seconds(lambda: plain.best(belief, rows), 2),
        "update": seconds(lambda: plain.update(belief, rows[place], omega), 5),
    }
    for times in (ours, loop):
        times["select and update"] = times["select"] + times["update"]
    for name in loop:
        ratio = loop[name] / ours[name]
        print(
            f"{4**num_dimensions:>7} states  {name:<18}{1e3 * ours[name]:>10.3f} ms{1e3 * loop[name]:>12.1f} ms"
            f"{ratio:>8.0f} times"
        )


def note(times: list[float], _: Snapshot) -> None:
    times.append(time.perf_counter())


def sleep_time(latency: float) -> None:
    config = BalarConfig(max_asks=0)
    users = tuple(User(f"user {number}", "somebody") for number in range(5))
    case = Case("c", "Who was it?", "", users, tuple(f"option {number}" for number in range(5)))
    for concurrent in (True, False):
        agent = load("scripted_agent").ScriptedAgent(5, 4, 10, 4)
        policy = ScriptedPolicy(agent, latency=latency, identity="agent")
        elicitor = PolicyElicitor(policy, config, concurrent=concurrent)
        times = [time.perf_counter()]
        run_case(case, elicitor, None, config, watch=partial(note, times))
        wall = times[1] - times[0]
        calls = policy.counters.num_calls - 1  # less the final answer
        print(
            f"{calls} calls of {latency} s, {'concurrent' if concurrent else 'in turn'}: {wall:.2f} s, "
            f"{wall / (3 * latency):.2f} times the longest chain ({calls * latency:.0f} s one by one)"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] != ["latency"]:
        for num_dimensions in (5, 7):
            compare(num_dimensions)
    sleep_time(latency=2.0)
