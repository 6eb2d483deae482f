"""The search: against replay, ties, duplicates, errors, modes, budgets, measured costs, traces, coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sif_trainer.policy import Sample
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.adap import (
    Budget,
    Candidate,
    Costs,
    How,
    Journal,
    Problem,
    Verdict,
    search,
    search_async,
    search_many,
)
from sif_trainer.systems.adap.pools import Recorded
from sif_trainer.systems.adap.replay import replay
from sif_trainer.systems.adap.rules import rounds
from sif_trainer.systems.adap.samplers import RecordedParts
from sif_trainer.systems.adap.trials import Trials

ONE_TEN = Costs.of(1, 10)
PROBLEM = Problem("p", "question", reference="secret")


class Fake:
    """All three parts, by lists; notes what it is asked."""

    def __init__(self, scores, passes=(), answers=None, errors=(), relative=False, tokens=None, seconds=(0.0, 0.0)):
        self.scores, self.passes, self.errors, self.relative = scores, set(passes), set(errors), relative
        self.answers, self.tokens, self.seconds = answers, tokens, seconds
        self.drawn, self.scored, self.verified, self.seen = [], [], [], []

    def draw(self, problem, num, first):
        self.seen.append(problem)
        for index in range(first, min(first + num, len(self.scores))):
            self.drawn.append(index)
            sample = Sample("text", self.tokens, "stop") if self.tokens else None
            answer = self.answers[index] if self.answers else None
            yield Candidate("text", index, sample, answer, self.seconds[0])

    def score(self, problem, candidates):
        self.seen.append(problem)
        self.scored.append([candidate.index for candidate in candidates])
        return [self.scores[candidate.index] for candidate in candidates]

    def verify(self, problem, candidate, *, cancel=None):
        assert problem.reference == "secret"
        self.verified.append(candidate.index)
        if candidate.index in self.errors:
            return Verdict("error", "time-out", self.seconds[1])
        return Verdict("pass" if candidate.index in self.passes else "fail", "", self.seconds[1])


def run(fake, costs=ONE_TEN, **settings):
    return search(PROBLEM, fake, fake, fake, costs, **settings)


samples = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, float("nan")]), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=80, deadline=None)
@given(samples=samples, price=st.tuples(st.sampled_from([1, 3, 10]), st.sampled_from([1, 3, 10])))
def test_a_recorded_pool_gives_replays_numbers(samples, price):
    recorded = Recorded("p", np.array([r for r, _ in samples]), np.array([v for _, v in samples]))
    costs, parts = Costs.of(*price), RecordedParts([recorded])
    trials = Trials.in_order([recorded], [[np.arange(len(samples))]])
    for rule in ("adap", "balanced"):
        spent = replay(trials, rounds(rule, costs))
        for mode in ("batch", "sequential"):
            result = search(Problem("p", ""), parts, parts, parts, costs, how=How(rule=rule, mode=mode))
            assert (result.status == "verified") == bool(spent.success[0])
            assert (result.num_draws, result.num_verifications) == (
                spent.num_draws[0],
                spent.num_verifications(mode)[0],
            )
            assert result.cost == pytest.approx(spent.cost(mode, costs)[0])


def test_best_first_with_earlier_draws_first_and_missing_last():
    fake = Fake([0.5, None, 0.9, 0.5, float("nan"), 0.1, 0.9, 0.5])
    result = run(fake, budget=Budget(rounds=1))
    assert fake.verified == [2, 6, 0, 3, 7, 5]
    assert (result.status, result.stopped_by, result.candidate.index) == ("budget", "rounds", 1)
    assert run(Fake([0.1] * 8)).status == "exhausted"


def test_the_reference_is_for_verifiers_only():
    fake = Fake([0.0] * 8, passes=[0])
    assert run(fake).status == "verified"
    assert len(fake.seen) == 2 and all(problem.reference is None for problem in fake.seen)


def test_equal_answers_share_one_verdict():
    fake = Fake([8, 7, 6, 5, 4, 3, 2, 1], answers=["a", "a", "b", None, None, "c", "a", ""], passes=[7])
    result = run(fake)
    assert fake.verified == [0, 2, 3, 4, 5, 7]  # 1 and 6 are settled with 0; no answer is not an answer
    assert (result.num_verifications, result.status) == (6, "verified")
    assert run(Fake([1] * 8, answers=["a"] * 8)).num_shared == 7


def test_an_error_is_no_verdict():
    fake = Fake([8, 7, 6, 5, 4, 3, 2, 1], answers=["a", "a"] + [None] * 6, errors=[0])
    result = run(fake)
    assert fake.verified == [0, 2, 3, 4, 5, 6, 1, 7]  # its twin is asked in its own right
    assert (result.status, result.candidate.index, result.num_errors) == ("exhausted", 0, 1)
    assert result.num_verifications == 8 and result.cost == 88


@pytest.mark.parametrize(
    ("how", "passes", "charged"),
    [
        (How(mode="batch"), [1], 6),
        (How(mode="sequential"), [1], 2),
        (How(mode="chunked", num_workers=4), [1], 4),
        (How(mode="chunked", num_workers=4), [5], 6),
        (How(mode="chunked", num_workers=1), [1], 2),
        (How(mode="chunked", num_workers=50), [1], 6),
    ],
)
def test_accounting_by_mode(how, passes, charged):
    result = run(Fake([8, 7, 6, 5, 4, 3, 2, 1], passes=passes), how=how)
    assert (result.status, result.num_verifications, result.ver_cost) == ("verified", charged, 10 * charged)
    assert result.candidate.index == passes[0]


def test_the_first_pass_cancels_its_siblings():
    class Slow(Fake):
        def verify(self, problem, candidate, *, cancel=None):
            if candidate.index == 2:
                return Verdict("pass")
            assert cancel.wait(30), "never cancelled"
            return Verdict("error", "cancelled")

    lines = []
    fake = Slow([1.0] * 8)
    result = run(fake, how=How(mode="chunked", num_workers=3), journal=Journal(lines))
    assert (result.candidate.index, result.num_verifications) == (2, 3)
    assert [line["index"] for line in lines if line["event"] == "verdict"] == [2]  # the others know nothing


def test_the_time_of_a_cancelled_verification_counts():
    class Slow(Fake):
        def verify(self, problem, candidate, *, cancel=None):
            if candidate.index == 2:
                time.sleep(0.1)
                return Verdict("pass", seconds=0.1)
            assert cancel.wait(30), "never cancelled"
            return Verdict("error", "cancelled")

    lines, how = [], How(mode="chunked", num_workers=3, measure="seconds")
    result = run(Slow([1.0] * 8), how=how, journal=Journal(lines))
    assert result.ver_cost == pytest.approx(
        0.1 + sum(line["seconds"] for line in lines if line["event"] == "cancelled")
    )
    assert result.ver_cost >= 0.1 + 2 * 0.1 * 0.9  # the two waited as long as the other one worked
    assert result.num_errors == 0
    assert run(Fake([1.0] * 8), how=how, journal=Journal(lines)) == result


def test_a_verifier_that_raises_stops_the_search_and_leaves_its_siblings_cancelled():
    class Broken(Fake):
        def verify(self, problem, candidate, *, cancel=None):
            if candidate.index == 0:
                raise RuntimeError("no checker")
            assert cancel.wait(30)
            return Verdict("error")

    with pytest.raises(RuntimeError, match="no checker"):
        run(Broken([1.0] * 8), how=How(mode="chunked", num_workers=3))


@pytest.mark.parametrize(
    ("budget", "draws", "verifications", "why"),
    [
        (Budget(cost=68), 8, 6, "cost"),
        (Budget(cost=67), 7, 6, "cost"),
        (Budget(cost=11), 1, 1, "cost"),
        (Budget(cost=10.5), 0, 0, "cost"),
        (Budget(cost=0), 0, 0, "cost"),
        (Budget(cost=220), 40, 18, "cost"),
        (Budget(draws=8), 8, 8, "draws"),
        (Budget(draws=0), 0, 0, "draws"),
        (Budget(verifications=7), 40, 7, "verifications"),
        (Budget(rounds=2), 40, 18, "rounds"),
        (Budget(seconds=0), 0, 0, "seconds"),
    ],
)
def test_every_limit_stops(budget, draws, verifications, why):
    result = run(Fake([0.0] * 1000), budget=budget)
    assert (result.status, result.stopped_by) == ("budget", why)
    assert (result.num_draws, result.num_verifications) == (draws, verifications)


@settings(max_examples=60, deadline=None)
@given(
    limit=st.floats(0, 600),
    price=st.tuples(st.sampled_from([1, 2.5, 10]), st.sampled_from([0.5, 3, 10])),
    rule=st.sampled_from(["adap", "balanced"]),
    mode=st.sampled_from(["batch", "sequential", "chunked"]),
)
def test_a_budget_is_kept_and_used(limit, price, rule, mode):
    costs = Costs.of(*price)
    result = run(Fake([0.0] * 2000), costs, budget=Budget(cost=limit), how=How(rule=rule, mode=mode))
    assert result.cost <= limit and result.status == "budget"
    assert limit - result.cost < costs.price(1, 1)  # what is left pays for no further draw that is verified


@pytest.mark.parametrize("fault", [("seconds", -1), ("draws", -1), ("cost", float("nan")), ("cost", float("inf"))])
def test_budgets_that_are_none(fault):
    with pytest.raises(UserError, match=f"the budget's {fault[0]} is"):
        Budget(**dict([fault]))


def test_what_parts_may_not_do():
    class Short(Fake):
        def score(self, problem, candidates):
            return [0.0]

    class Eager(Fake):
        def draw(self, problem, num, first):
            return list(super().draw(problem, num + 1, first))

    with pytest.raises(UserError, match="1 scores for 8 candidates"):
        run(Short([0.0] * 100))
    with pytest.raises(UserError, match="asked for draws 0 to 7, and gave number 8"):
        run(Eager([0.0] * 100))
    with pytest.raises(UserError, match="gave 'high', which is neither a number nor None"):
        run(Fake(["high"] * 100))
    with pytest.raises(UserError, match="infinite score"):
        run(Fake([float("inf")] * 100))
    with pytest.raises(UserError, match="a verdict of 'passed'; it must be one of pass, fail, error"):
        Verdict("passed")
    with pytest.raises(UserError, match="no mode 'bach'; did you mean 'batch'"):
        How(mode="bach")
    with pytest.raises(UserError, match="num_workers is 0"):
        How(num_workers=0)


def test_a_relative_scorer_scores_everybody_again():
    fake = Fake([0.0] * 60, relative=True)
    run(fake, budget=Budget(rounds=2))
    assert fake.scored == [list(range(8)), list(range(40))]
    fake = Fake([0.0] * 60)
    run(fake, budget=Budget(rounds=2))
    assert fake.scored == [list(range(8)), list(range(8, 40))]


def test_measured_prices_replan():
    equal = Costs.of(1, 1)
    fake = Fake([0.0] * 60, tokens=7)
    result = run(fake, equal, budget=Budget(rounds=2), how=How(measure="tokens"))
    assert result.rew_cost == 7 * result.num_draws and result.ver_cost == result.num_verifications
    # After (4, 6) at 1:1 the second round is planned at 7:1, where shell 1 draws 2 after shell 0's ... of ADAP(7, 1).
    assert result.num_draws == 4 + list(zip(range(2), rounds("adap", Costs.of(7, 1)), strict=False))[1][1][0]
    fake = Fake([0.0] * 60, seconds=(1.0, 10.0))
    result = run(fake, equal, budget=Budget(rounds=2), how=How(measure="seconds"))
    assert (result.num_draws, result.num_verifications) == (4 + 32, 4 + 12)
    assert result.ver_cost == 160 and 36 <= result.rew_cost < 37


def test_the_seconds_of_scoring_are_the_draws(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    result = run(Fake([0.0] * 60), budget=Budget(rounds=1), how=How(measure="seconds"))
    assert (result.num_draws, result.rew_cost, result.ver_cost) == (8, 1, 0)


@settings(max_examples=30, deadline=None)
@given(
    passing=st.integers(0, 70),
    relative=st.booleans(),
    mode=st.sampled_from(["batch", "sequential", "chunked"]),
    data=st.data(),
)
def test_a_search_resumes_from_any_line_of_its_trace(passing, relative, mode, data):
    def fake():
        scores = [((7 * i) % 11) / 11 for i in range(70)]
        return Fake(scores, [passing], [str(i % 23) if i % 3 else None for i in range(70)], [3, 5], relative)

    how = How(mode=mode, num_workers=1 if mode != "batch" else 2)
    lines = []
    whole = run(fake(), journal=Journal(lines), how=how)
    cut = data.draw(st.integers(0, len(lines)))
    kept, parts = lines[:cut], fake()
    again = run(parts, journal=Journal(kept), how=how)
    assert again == whole
    draws = [line["index"] for line in kept if line["event"] == "draw"]
    assert draws == sorted(set(draws)) and len(parts.drawn) == len(draws) - sum(
        line["event"] == "draw" for line in lines[:cut]
    )
    silent = Fake([])  # a finished trace needs nobody
    assert run(replace_parts(silent, relative), journal=Journal(kept), how=how) == whole
    assert not silent.drawn and not silent.verified


def replace_parts(fake, relative):
    fake.relative = relative
    return fake


def test_two_searches_share_draws_but_not_costs():
    fake, journal = Fake([0.0] * 60, passes=[30]), Journal()
    first = run(fake, journal=journal)
    second = run(fake, journal=journal, how=How(rule="balanced"))
    assert fake.drawn == list(range(max(first.num_draws, second.num_draws)))
    assert len(fake.verified) == len(set(fake.verified))
    assert second == run(Fake([0.0] * 60, passes=[30]), how=How(rule="balanced"))


def test_many_at_once_are_each_as_alone():
    pool = [Recorded(f"p{n}", np.linspace(0, 1, 40), np.arange(40) == (7 * n) % 40) for n in range(12)]
    parts = RecordedParts(pool)
    problems = [Problem(recorded.id, "") for recorded in pool]
    found = {result.id: result for result in search_many(problems, parts, parts, parts, ONE_TEN, in_flight=4)}
    assert [found[problem.id] for problem in problems] == [
        search(problem, parts, parts, parts, ONE_TEN) for problem in problems
    ]


def test_what_one_search_raises_stops_the_others():
    class Broken(Fake):
        def verify(self, problem, candidate, *, cancel=None):
            if problem.id == "broken":
                raise RuntimeError("no checker")
            return Verdict("fail")

    fake = Broken(range(10**9))  # the other search would not end before long
    problems = [Problem("endless", "", "secret"), Problem("broken", "", "secret")]
    with pytest.raises(RuntimeError, match="no checker"):
        list(search_many(problems, fake, fake, fake, ONE_TEN, in_flight=2))


def test_coroutines_and_plain_parts():
    class Asynchronous:
        def __init__(self, fake):
            self.fake, self.relative, self.threads = fake, fake.relative, set()

        async def draw(self, problem, num, first):
            await asyncio.sleep(0)
            self.threads.add(threading.get_ident())
            return list(self.fake.draw(problem, num, first))

        async def verify(self, problem, candidate, *, cancel=None):
            await asyncio.sleep(0)
            return self.fake.verify(problem, candidate, cancel=cancel)

    async def both():
        fakes = [Fake([0.1 * (i % 5) for i in range(60)], passes=[n]) for n in (3, 50)]
        parts = [Asynchronous(fake) for fake in fakes]
        calls = [
            search_async(replace(PROBLEM, id=str(n)), part, fake, part, ONE_TEN, how=How(mode="chunked"))
            for n, (part, fake) in enumerate(zip(parts, fakes, strict=True))
        ]
        results = await asyncio.gather(*calls)
        assert all(part.threads == {threading.get_ident()} for part in parts)
        return results

    results = asyncio.run(both())
    alone = [
        search(replace(PROBLEM, id=str(n)), *[Fake([0.1 * (i % 5) for i in range(60)], passes=[p])] * 3, ONE_TEN,
               how=How(mode="chunked"))
        for n, p in enumerate((3, 50))
    ]  # fmt: skip
    assert results == alone


def test_a_cancelled_task_ends_its_search():
    class Slow(Fake):
        async def verify(self, problem, candidate, *, cancel=None):
            self.verified.append(candidate.index)
            await asyncio.sleep(0.01)
            return Verdict("fail")

    async def begin_and_cancel():
        fake = Slow(range(10**9))
        task = asyncio.create_task(search_async(PROBLEM, fake, fake, fake, ONE_TEN))
        while not fake.verified:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
        num_verified = len(fake.verified)
        await asyncio.sleep(0.1)
        return num_verified, len(fake.verified)

    before, after = asyncio.run(begin_and_cancel())
    assert before == after


def test_a_bare_prompt_will_do():
    class Checker(Fake):
        def verify(self, problem, candidate, *, cancel=None):
            return Verdict("pass" if problem.prompt == "2 + 3 = ?" else "fail")

    fake = Checker([0.0] * 8)
    result = search("2 + 3 = ?", fake, fake, fake, ONE_TEN)
    assert result.status == "verified"
    assert result.to_json()["candidate"] == 0 and "stopped_by" in result.to_json()


def test_bare_prompts_share_a_journal_but_no_draws():
    class Echo(Fake):
        def draw(self, problem, num, first):
            return [Candidate(problem.prompt, first + place) for place in range(num)]

        def verify(self, problem, candidate, *, cancel=None):
            return Verdict("pass" if candidate.text == problem.prompt else "fail")

    fake, journal = Echo([0.0] * 8), Journal()
    results = [search(prompt, fake, fake, fake, ONE_TEN, journal=journal) for prompt in ("one", "two", "one")]
    assert [result.candidate.text for result in results] == ["one", "two", "one"]
    assert results[0] == results[2] and results[0].id != results[1].id and journal.num_draws == 16
