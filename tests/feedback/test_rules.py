"""Every rule against a plain oracle and against numbers known by hand; and what all rules have in common."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
import rule_oracle
import torch
from batches import OPTIONS, batch, only_usable, settings

from sif_trainer.feedback.answers import elect
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome
from sif_trainer.feedback.rules import RULES
from sif_trainer.feedback.scope import choose_subgroup
from sif_trainer.feedback.settings import FeedbackSettings
from sif_trainer.feedback.sif import sif

NAMES = [field.name for field in fields(Groups) if field.name not in ("seed", "paired")]


def decide(rule: str, groups: Groups, **values: object) -> GroupOutcome:
    chosen = settings(rule, **values)
    return chosen.find_rule().decide(groups, chosen)


def responses(groups: Groups, p: int) -> list[dict]:
    return [{name: getattr(groups, name)[p, i].tolist() for name in NAMES} for i in range(groups.usable.size(1))]


def agrees(outcome: GroupOutcome, p: int, expected: rule_oracle.Verdicts, epsilon: float = 1e-6) -> None:
    rewards = [math.nan if reward is None else reward for reward, _ in expected]
    assert outcome.reward[p].tolist() == pytest.approx(rewards, nan_ok=True)
    assert outcome.keep[p].tolist() == [keep for _, keep in expected]
    assert outcome.advantage[p].tolist() == pytest.approx(rule_oracle.advantages(expected, epsilon), abs=1e-9)


@pytest.mark.parametrize("rule", rule_oracle.ORACLES)
def test_agrees_with_the_loop_oracle(rule: str) -> None:
    for seed in range(40):
        groups = batch(seed)
        options = {"consistency_threshold": 0.4} if rule == "srt" else {}
        outcome = decide(rule, groups, **options)
        for p in range(groups.usable.size(0)):
            agrees(outcome, p, rule_oracle.ORACLES[rule](responses(groups, p)))


def test_every_rule_has_an_oracle_or_counts_of_its_own() -> None:
    drawn = {"random_filter", "random_matched", "random_reward", "scope"}
    assert set(RULES) == set(rule_oracle.ORACLES) | drawn | {"sif", "co_rewarding"}  # sif: test_sif.py


@pytest.mark.parametrize("rule", RULES)
def test_what_every_outcome_promises(rule: str) -> None:
    for seed in range(20):
        groups = batch(seed)
        outcome = decide(rule, groups)
        assert (outcome.eligible | ~outcome.keep).all() and (groups.usable | ~outcome.eligible).all()
        assert not outcome.advantage[~outcome.keep].any() and outcome.advantage.isfinite().all()
        size = groups.usable.size(1)
        assert outcome.advantage.abs().max() <= (size - 1) / math.sqrt(size)
        again = decide(rule, groups)
        assert torch.equal(outcome.advantage, again.advantage) and torch.equal(outcome.keep, again.keep)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_reads_only_what_it_names(rule: str) -> None:
    optional = {"certainty_band", "entropy_mean", "log_prob_mean", "step_confidence", "gradient_norm"}
    optional |= {"answer", "teacher_answer", "verdict"}
    groups = replace(batch(3), **dict.fromkeys(optional - RULES[rule].reads), paired="paired" in RULES[rule].reads)
    assert torch.equal(decide(rule, groups).keep, decide(rule, batch(3)).keep)
    for name in RULES[rule].reads & optional:
        with pytest.raises(ValueError, match=name):
            decide(rule, replace(groups, **{name: None}))


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"verifier"}))
def test_no_rule_but_the_verifier_sees_a_verdict(rule: str) -> None:
    groups = batch(5)
    scrambled = replace(groups, verdict=1 - groups.verdict)
    assert torch.equal(decide(rule, groups).advantage, decide(rule, scrambled).advantage)
    assert not torch.equal(decide("verifier", groups).advantage, decide("verifier", scrambled).advantage)


# --- numbers known by hand ------------------------------------------------------------------------------------


def test_eight_advantages_of_vigor() -> None:
    groups = only_usable(batch(1, num_groups=1, ties=False))
    values = decide("vigor", groups, advantage_epsilon=0.0).advantage[0].sort().values.tolist()
    assert values == pytest.approx([-1.4289, -1.0206, -0.6124, -0.2041, 0.2041, 0.6124, 1.0206, 1.4289], abs=1e-4)
    score = (-groups.length.double().sqrt() * groups.gradient_norm)[0]
    assert int(decide("vigor", groups).advantage[0].argmax()) == int(score.argmax())


def test_top2_is_sif_without_windows_at_eight_responses() -> None:
    for seed in range(200):
        groups = only_usable(batch(seed, num_groups=4, ties=False))
        top, no_window = decide("top2", groups), decide("sif_no_window", groups, peer_win_rate=0.75)
        assert torch.equal(top.reward, no_window.reward) and torch.equal(top.advantage, no_window.advantage)
        assert top.keep.all() and no_window.keep.all()


def test_top2_rewards_exactly_two_whatever_is_tied() -> None:
    equal = replace(only_usable(batch(1, num_groups=1)), certainty_mean=torch.ones(1, 8, dtype=torch.float64))
    assert decide("top2", equal).reward.tolist() == [[1, 1, 0, 0, 0, 0, 0, 0]]
    assert decide("top2", equal, num_top=3).reward.sum() == 3
    assert not decide("sif_no_window", equal).keep.any()


def answers(*rows: list[int]) -> Groups:
    groups = only_usable(batch(1, num_groups=len(rows), size=len(rows[0])))
    return replace(groups, answer=torch.tensor(rows))


def test_cluster_shares_of_empo() -> None:
    groups = answers([0, 0, 1, -1])
    assert decide("empo", groups).reward.tolist() == [[0.5, 0.5, 0.25, 0.25]]
    assert decide("soft_majority", groups).reward.tolist() == [[0.5, 0.5, 0.25, 0.0]]


def test_the_label_of_ttrl() -> None:
    tied, silent, clear = [1, 0, 0, 1], [-1, -1, -1, -1], [-1, 2, 2, 0]
    outcome = decide("majority", answers(tied, silent, clear))
    assert outcome.reward.tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]]  # of equals the one given first
    assert outcome.keep.tolist() == [[True] * 4, [False] * 4, [True] * 4]
    assert elect(torch.tensor([tied, silent, clear])).tolist() == [1, -1, 2]


def test_all_vote_and_the_first_are_trained_on() -> None:
    outcome = decide("majority", answers([0, 1, 1, 1]), num_trained=2)
    assert outcome.keep.tolist() == [[True, True, False, False]]
    assert outcome.reward[0].tolist() == pytest.approx([0, 1, math.nan, math.nan], nan_ok=True)
    for seed in range(10):
        groups = batch(seed)
        for p in range(6):
            expected = rule_oracle.majority(responses(groups, p), num_trained=4)
            agrees(decide("majority", groups, num_trained=4), p, expected)
    with pytest.raises(ValueError, match="num_trained=3 does not divide the 4 responses"):
        decide("majority", answers([0, 1, 1, 1]), num_trained=3)


def test_partners_label_each_other() -> None:
    groups = replace(answers([0, 0, 1, 2], [1, 1, 0, -1]), paired=True)
    assert decide("co_rewarding", groups).reward.tolist() == [[0, 0, 1, 0], [0, 0, 1, 0]]
    silent = replace(answers([0, 0, 1, 2], [-1, -1, -1, -1]), paired=True)
    assert decide("co_rewarding", silent).keep.any(-1).tolist() == [False, True]
    with pytest.raises(ValueError, match="rephrasing as neighbouring groups"):
        decide("co_rewarding", replace(groups, paired=False))


def test_subgroup_choice_of_scope() -> None:
    # g = 1, 2, 4, 8: less agreement, more diverse labels the smaller the subgroup; (0.5, 1.5) is dominated.
    agreement, diversity = [0.4, 0.6, 0.5, 0.8], [3.0, 2.0, 1.5, 1.0]
    # On the front {0, 1, 3}, scaled: (0, 1), (.5, .5), (1, 0): distances² .7, .25, .3 at a weight of 0.7.
    assert choose_subgroup(agreement, diversity, 0.7) == 1
    assert choose_subgroup(agreement, diversity, 0.95) == 3  # .95, .25, .05
    assert choose_subgroup(agreement, diversity, 0.05) == 0
    assert choose_subgroup([0.5, 0.5], [1.0, 1.0], 0.7) == 0
    assert choose_subgroup([0.9, 0.5], [2.0, 1.0], 0.0) == 0  # one candidate dominates


def test_scope_labels_come_from_the_group_and_follow_confidence() -> None:
    for seed in range(20):
        groups = only_usable(batch(seed))
        outcome = decide("scope", groups)
        given = groups.answer >= 0
        assert not outcome.reward[~given].nan_to_num(0).any()
        assert set(outcome.reward[outcome.eligible].tolist()) <= {0.0, 1.0}
    sure = replace(answers([0, 1, 1, 1, 1, 1, 1, 1]), step_confidence=torch.tensor([[99.0] + [0.001] * 7]))
    heavy = [decide("scope", replace(sure, seed=s)).reward[0, 0].item() for s in range(200)]
    light = [decide("majority", replace(sure, seed=s)).reward[0, 0].item() for s in range(3)]
    assert light == [0.0] * 3 and sum(heavy) > 50  # the sure one wins wherever it is among the four that are drawn


# --- rules that draw --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4])
def test_random_filter_drops_exactly_its_share_whatever_the_responses_are(rate: float) -> None:
    groups = batch(2, num_groups=16)
    outcome, intuitor = decide("random_filter", groups, filter_rate=rate), decide("intuitor", groups)
    num_usable = int(groups.usable.sum())
    assert int(outcome.keep.sum()) == num_usable - round(rate * num_usable)
    assert torch.equal(outcome.advantage[outcome.keep], intuitor.advantage[outcome.keep])  # as before the draw
    others = replace(groups, certainty_mean=groups.certainty_mean.flip(-1))
    assert torch.equal(decide("random_filter", others, filter_rate=rate).keep, outcome.keep)
    assert not torch.equal(decide("random_filter", replace(groups, seed=3), filter_rate=rate).keep, outcome.keep)


def test_random_matched_drops_as_many_as_sif() -> None:
    for seed in range(20):
        groups = batch(seed)
        outcome = decide("random_matched", groups)
        assert int(outcome.keep.sum()) == int(sif(groups, settings()).keep.sum())


def test_random_reward_is_a_fair_coin() -> None:
    reward = decide("random_reward", only_usable(batch(0, num_groups=500))).reward
    assert set(reward.flatten().tolist()) == {0.0, 1.0}
    assert abs(reward.mean().item() - 0.5) < 4 * 0.5 / math.sqrt(reward.numel())


def test_documented_order_of_keep_rates() -> None:
    """The same rollouts through all rules: docs/rules.md says who drops what."""
    groups = batch(7, num_groups=200)
    kept = {rule: decide(rule, groups).keep.double().mean().item() for rule in RULES}
    usable = groups.usable.double().mean().item()
    keep_all = {"intuitor", "top2", "band", "soft_majority", "empo", "vigor", "rent", "trajectory_entropy"}
    assert all(kept[rule] == usable for rule in keep_all | {"random_reward", "verifier"})
    assert kept["sif"] <= kept["sif_no_peer"] <= kept["length_gate"] < usable
    assert kept["random_matched"] == kept["sif"] and kept["sif_no_window"] <= usable
    assert kept["random_filter"] == pytest.approx(0.8 * usable, abs=1e-3)
    assert kept["srt"] <= kept["majority"] <= usable


def test_responses_whose_subgroup_of_scope_has_no_label_count_as_zero() -> None:
    mixed = 0
    for seed in range(30):
        outcome = decide("scope", replace(answers([0, -1, -1, -1, -1, -1, -1, -1]), seed=seed))
        assert outcome.eligible.all() and not outcome.reward[~outcome.keep].any()
        if outcome.reward.any() and not outcome.keep.all():
            mixed += 1
            assert outcome.advantage.max().item() == pytest.approx(2.474874, abs=1e-4)  # a single winner of eight
    assert mixed


# --- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"feedback": "siff"}, "'siff' is no rule; did you mean 'sif'\\?; choose one of sif, "),
        ({"feedback": "xyz"}, "'xyz' is no rule; choose one of sif, "),
        ({"feedback": "random_filter"}, "needs filter_rate"),
        ({"feedback": "random_filter", "filter_rate": 1.0}, "filter_rate=1.0 must lie in"),
        ({"feedback": "entropy_gate"}, "needs gate_threshold"),
        ({"feedback": "variance_gate", "gate_threshold": -1.0}, "gate_threshold=-1.0 must be finite"),
        ({"feedback": "certainty_gate", "gate_threshold": math.inf}, "must be finite"),
        ({"feedback": "band", "band_low": 0.2}, "needs band_high"),
        ({"feedback": "band", "band_low": 0.5, "band_high": 0.5}, "must lie below"),
        ({"feedback": "band", "band_low": -0.1, "band_high": 0.5}, r"must lie in \[0, 1\)"),
        ({"feedback": "majority", "num_trained": 1}, "must be at least 2"),
        ({"feedback": "sif", "num_trained": 4}, "for rules that vote by answer"),
        ({"feedback": "srt", "consistency_threshold": 1.5}, "consistency_threshold=1.5"),
        ({"feedback": "top2", "num_top": 0}, "num_top=0"),
        ({"feedback": "missing.py:rule"}, "there is no file missing.py"),
        ({"num_windows": 0}, "num_windows=0"),
    ],
)
def test_refused_with_a_reason(values: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FeedbackSettings(**values)


def test_every_option_says_what_it_is_and_every_rule_is_constructed() -> None:
    for field in fields(FeedbackSettings):
        assert field.metadata["help"].endswith("."), field.name
    for rule in RULES:
        assert FeedbackSettings(feedback=rule, **OPTIONS.get(rule, {})).find_rule() is RULES[rule]


def test_a_rule_of_ones_own_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from sif_trainer.feedback.outcome import standardise\n"
        "from sif_trainer.feedback.rule import Rule\n"
        "def longest(groups, settings):\n"
        "    return standardise(groups.length, groups.usable, settings.advantage_epsilon)\n"
        "def surest(groups, settings):\n"
        "    return standardise(-groups.given('entropy_mean'), groups.usable, 0.0)\n"
        "surest = Rule(surest, frozenset({'entropy_mean'}))\n"
        "number = 3\n"
    )
    groups = batch(4)
    outcome = decide(f"{file}:longest", groups)
    assert torch.equal(outcome.reward[outcome.eligible], groups.length.double()[groups.usable])
    assert settings(f"{file}:surest").find_rule().reads == {"entropy_mean"}
    with pytest.raises(ValueError, match="is no function and no Rule, but 3"):
        settings(f"{file}:number")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def rule(:\n", "cannot be loaded: SyntaxError: invalid syntax"),
        ("import no_such_module\n", "No module named 'no_such_module'"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ValueError, match=rf"mine\.py.*{complaint}"):
        settings(f"{tmp_path / 'mine.py'}:rule")


def test_a_rules_file_may_have_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from sif_trainer.feedback.outcome import standardise\n"
        "@dataclass\n"
        "class Weight:\n"
        "    value: float = 2.0\n"
        "def rule(groups, settings):\n"
        "    return standardise(Weight().value * groups.length, groups.usable, 0.0)\n"
    )
    groups = batch(4)
    outcome = decide(f"{tmp_path / 'mine.py'}:rule", groups)
    assert torch.equal(outcome.reward[outcome.eligible], 2.0 * groups.length.double()[groups.usable])


def test_a_gradient_that_is_none_leaves_its_response_out_and_the_others_as_they_were() -> None:
    groups = batch(4)
    lost = groups.usable.int().argmax(-1)
    norms = groups.given("gradient_norm").clone()
    norms[torch.arange(len(norms)), lost] = math.nan
    fewer = groups.usable.clone()
    fewer[torch.arange(len(norms)), lost] = False
    outcome, expected = (
        decide("vigor", replace(groups, **part)) for part in ({"gradient_norm": norms}, {"usable": fewer})
    )
    assert torch.equal(outcome.keep, expected.keep)
    assert torch.equal(outcome.advantage, expected.advantage)
