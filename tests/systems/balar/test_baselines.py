"""The baselines: what each asks and when it stops, under one budget, without a secret in any prompt."""

from __future__ import annotations

import math

import pytest

from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar import BalarConfig, Case, Private, Trace, User, run_case
from sif_trainer.systems.balar.baselines import STRATEGIES
from sif_trainer.systems.balar.baselines.conformal import conformal_pursuit, right_probabilities, threshold
from sif_trainer.systems.balar.baselines.dialogue import Dialogue, Settings
from sif_trainer.systems.balar.baselines.random_bank import RandomBank
from sif_trainer.systems.balar.baselines.uncertainty import reward
from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.environments.simulated_user import SimulatedUser
from sif_trainer.systems.balar.environments.worlds import SIZES, WorldElicitor, WorldUser, draw_world
from sif_trainer.systems.balar.parts import Skip, Stop
from sif_trainer.systems.balar.speaker import Speaker

SECRET = "the spoon is under the oak"


class Model:
    """Writes numbered questions and picks by rules of (text in the prompt, likeliest option)."""

    def __init__(self, **rules):
        self.rules = {key.replace("_", " "): option for key, option in rules.items()}
        self.prompts = []
        self.policy = ScriptedPolicy(self.write, self.score, identity="model")

    def write(self, prompt, number):
        self.prompts.append(prompt)
        return f"text {len(self.prompts)}"

    def score(self, prompt, letter):
        if letter == "A":
            self.prompts.append(prompt)
        wanted = next((option for key, option in self.rules.items() if key in prompt), None)
        own = next((line for line in prompt.splitlines() if line.startswith(f"{letter}. ")), "")
        return 0.0 if wanted is not None and wanted in own else -2.0


class Yes:
    """Everybody says yes, or what `replies` hold first."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def ask(self, case, user, question, free):
        self.asked.append((user.name, question.text))
        return self.replies.pop(0) if self.replies else "yes"


def dialogue(case, model, environment=None, by="score", settings=None, **config):
    config = {"max_asks": 3, **config}
    speaker = Speaker(model.policy, by)
    return Dialogue(case, speaker, environment or Yes(), BalarConfig(**config), Trace(), settings or Settings())


def test_direct_asks_nothing(case):
    told = dialogue(case, Model(Which_option="the cat"))
    assert STRATEGIES["direct"](told) is None and told.num_asks == 0
    assert told.answer() == "the cat"


@pytest.mark.parametrize("name", ["reactive", "proactive", "tree_of_thoughts"])
def test_asking_until_ready_or_until_the_budget_is_spent(name, case):
    environment = Yes()
    told = dialogue(case, Model(Is_enough_known="ask", Who_should="Ben"), environment)
    STRATEGIES[name](told)
    assert told.num_asks == 3 and not told.goes_on
    assert {user for user, _ in environment.asked} == {"Ben"}
    assert len({text for _, text in environment.asked}) == 3
    ready = dialogue(case, Model(Is_enough_known="answer now"))
    STRATEGIES[name](ready)
    assert ready.num_asks == 0 and ready.goes_on


def test_what_was_said_stands_in_the_next_prompts(case):
    model = Model(Is_enough_known="ask", Who_should="Ben")
    told = dialogue(case, model, Yes("I saw a raven."))
    STRATEGIES["reactive"](told)
    told.answer()
    assert "I saw a raven." not in model.prompts[0] and "I saw a raven." in model.prompts[-1]


def test_the_most_promising_question_is_put(case):
    environment = Yes()
    model = Model(Is_enough_known="ask", Who_should="Ada", text_5="much", How_much_would="not at all")
    STRATEGIES["tree_of_thoughts"](dialogue(case, model, environment, max_asks=1))
    assert len([prompt for prompt in model.prompts if "How much would" in prompt]) == 3
    assert environment.asked == [("Ada", "text 5")]


def test_what_is_not_answered_counts_but_is_not_in_the_log(case):
    told = dialogue(case, Model(Is_enough_known="ask"), Yes(Skip(), " ", "yes"))
    STRATEGIES["reactive"](told)
    assert told.num_asks == 3 and [turn.answer for turn in told.log] == ["yes"]
    assert [len(told.log_after(k)) for k in range(4)] == [0, 0, 0, 1]
    stopped = dialogue(case, Model(Is_enough_known="ask"), Yes("yes", Stop()))
    STRATEGIES["reactive"](stopped)
    assert stopped.num_asks == 1 and not stopped.goes_on


def test_the_reward_of_a_split():
    assert reward(0.5) == 1 and reward(0) == reward(1) == 0
    assert reward(0.25) == pytest.approx(reward(0.75))
    entropy = -0.25 * math.log2(0.25) - 0.75 * math.log2(0.75)
    assert reward(0.25) == pytest.approx(entropy / (1 + 0.5 / 0.4))


def test_uncertainty_of_thoughts_narrows_the_answers_down(case):
    """The model expects yes for Ada alone, and finds that what was said fits Ada alone."""
    model = Model(**{"answer is: Ada": "yes", "answer is": "no"})
    environment = Yes()
    told = dialogue(case, model, environment, settings=Settings(num_candidates=2, depth=1))
    assert STRATEGIES["uncertainty_of_thoughts"](told) == "Ada"
    assert told.num_asks == 1
    would = [prompt for prompt in model.prompts if "Would the reply be yes" in prompt]
    assert len(would) == 2 * 3


def test_uncertainty_of_thoughts_looks_ahead_without_asking(case):
    counts = []
    for depth in (1, 3):
        environment = Yes()
        model = Model(**{"answer is: Ada": "yes", "answer is": "no"})
        settings = Settings(num_candidates=2, depth=depth)
        STRATEGIES["uncertainty_of_thoughts"](dialogue(case, model, environment, settings=settings, max_asks=1))
        assert len(environment.asked) == 1
        counts.append(len([prompt for prompt in model.prompts if "tells these possible answers apart" in prompt]))
    assert counts == [2, 2 + 2 * 2]  # two answers are left on the no side of each question; then each split is final


def test_without_options_possible_answers_are_written(puzzle):
    model = Model()
    told = dialogue(puzzle, model, settings=Settings(depth=1))
    assert STRATEGIES["uncertainty_of_thoughts"](told) is None
    assert told.num_asks == 3
    assert told.answer().startswith("text ")


def test_thresholds_cover_the_right_option():
    ranked = [i / 10 for i in range(1, 10)]
    assert threshold(ranked, 0.1) == 0.1  # rank 1 of 9: with chance 9/10, a tenth case is not below it
    assert threshold(ranked, 0.3) == 0.3
    assert threshold(ranked[:3], 0.1) == 0.0


def test_conformal_pursuit_stops_at_one_option(case):
    model = Model(Which_option="Ben")
    high = Settings(thresholds=(0.5,))
    told = dialogue(case, model, settings=high)
    conformal_pursuit(told)
    assert told.num_asks == 0  # a set of one at once
    low = dialogue(case, model, settings=Settings(thresholds=(0.0,)))
    conformal_pursuit(low)
    assert low.num_asks == 3


def test_conformal_pursuit_prefers_the_question_with_the_smaller_set(case):
    """After an imagined reply to `text 5` the model is sure; after others it is not."""
    model = Model(**{"text 5 yes": "Ben", "text 5 no": "Ben"})
    environment = Yes()
    conformal_pursuit(dialogue(case, model, environment, settings=Settings(thresholds=(0.3,)), max_asks=1))
    assert [text for _, text in environment.asked] == ["text 5"]


def test_calibration_goes_through_the_whole_budget(case):
    found = right_probabilities(dialogue(case, Model(Which_option="Ben")), "Ben")
    assert len(found) == 4 and all(p > 0.7 for p in found)
    assert right_probabilities(dialogue(case, Model()), " ben ")
    assert right_probabilities(dialogue(case, Model()), "a raven") == []


def test_conformal_pursuit_says_what_it_needs(case, puzzle):
    with pytest.raises(UserError, match="needs label scores"):
        conformal_pursuit(dialogue(case, Model(), by="json"))
    with pytest.raises(UserError, match="needs cases with options"):
        conformal_pursuit(dialogue(puzzle, Model()))


@pytest.mark.parametrize("mode", ["free", "choice"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_budget_and_secrets(name, mode, case):
    """With the simulated users of a study, no baseline shows the secret to the agent, nor asks too much."""
    agent, user = Model(Is_enough_known="ask"), Model()
    instance = Instance(case, {own.name: Private(SECRET) for own in case.users}, "You are asked.", Private("Ben"))
    environment = SimulatedUser(Speaker(user.policy), [instance])
    settings = Settings(depth=2, thresholds=(0.0,))
    told = dialogue(case, agent, environment, settings=settings, answer_mode=mode)
    answer = STRATEGIES[name](told)
    assert (answer or told.answer()) in case.options
    assert told.num_asks <= 3 and agent.prompts
    assert not any(SECRET in prompt for prompt in agent.prompts)
    assert all(SECRET in prompt for prompt in user.prompts) and bool(user.prompts) is bool(told.num_asks)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_recorded_dialogue_asks_nothing_again(name, case):
    model = Model(Is_enough_known="ask")
    records = []
    settings = Settings(depth=1, thresholds=(0.0,))

    def lead(trace, model, environment):
        told = Dialogue(case, Speaker(model.policy), environment, BalarConfig(max_asks=2), trace, settings)
        return STRATEGIES[name](told) or told.answer(), told.log

    first = lead(Trace(records), model, Yes())
    silent = Model()
    assert lead(Trace(records), silent, Yes()) == first
    assert silent.prompts == []


def test_random_bank_has_balars_bank_and_another_order():
    size = SIZES["large"]
    orders = []
    for seed in range(3):
        world = draw_world(size, seed)
        config = BalarConfig(alpha=1e-12, max_asks=10, max_states=size.num_states + 1)
        traces = Trace(), Trace()
        elicitor, user = WorldElicitor(world, config), WorldUser(world)
        ours = run_case(world.case, elicitor, user, config, traces[0])
        theirs = RandomBank(world.case, elicitor, user, config, traces[1], None).run()
        assert ours.questions == theirs.questions and theirs.last.num_asks == 10
        pairs = [
            [record["value"]["pair"] for record in trace.records if record["step"] == "round"] for trace in traces
        ]
        assert len(set(pairs[1])) == 10
        orders.append(pairs[1])
        assert pairs[0] != pairs[1]
    assert orders[0] != orders[1]  # drawn anew for each case


def test_a_dialogue_takes_no_private_text():
    with pytest.raises(TypeError):
        Case("c", "What?", Private(SECRET), (User("x", "y"),))
