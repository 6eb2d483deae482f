"""The rules behind the trainer: what each is given, what it is refused without, and that none but one sees answers."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from accelerate.utils import DistributedType
from datasets import Dataset

sys.path.insert(0, str(Path(__file__).parents[1] / "feedback"))
from batches import OPTIONS

from sif_trainer.feedback.rules import RULES
from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.answers import WIDTH, _decode, _encode
from sif_trainer.trainer.gradient_norm import gradient_norms
from sif_trainer.trainer.scoring import Rollout
from sif_trainer.trainer.steps import step_confidence, step_numbers
from sif_trainer.trainer.teacher import FILE


def matches(completions: list[str], answer: list[str] | None = None, **kwargs: Any) -> list[float]:
    """A monitor that reads the answer column."""
    answers = answer or [""] * len(completions)
    return [float((len(text) // 2 + len(right)) % 2) for text, right in zip(completions, answers, strict=True)]


def prompts(flip: bool) -> Dataset:
    rows = [{"id": f"p{i}", "prompt": f"say {i}", "answer": "x" * (i % 2 ^ flip)} for i in range(12)]
    return Dataset.from_list(rows)


def with_answers(rows: Dataset, flip: bool) -> Dataset:
    return rows.add_column("answer", ["x" * (i % 2 ^ flip) for i in range(len(rows))])


def trained(folder: Path, rule: str, dataset: Dataset | None = None, **settings: Any) -> Any:
    settings = {"rollout_func": tiny.fixed_rollouts, "max_steps": 2, **OPTIONS.get(rule, {}), **settings}
    trainer = tiny.trainer(
        folder, dataset=dataset, reward_funcs=[matches], feedback=rule, answers=tiny.FirstLetter(), **settings
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("rule", RULES)
def test_scrambled_answers_change_nothing_but_under_the_verifier(tmp_path: Path, rule: str) -> None:
    results = []
    for flip in (False, True):
        rows = with_answers(tiny.pairs(), flip) if "paired" in RULES[rule].reads else prompts(flip)
        results.append(tiny.weights(trained(tmp_path / str(flip), rule, rows)))
    assert torch.equal(*results) == (rule != "verifier")
    records = [json.loads(line) for line in (tmp_path / "True" / "metrics.jsonl").read_text().splitlines()]
    assert all(math.isfinite(r["loss"]) and r["sif/keep_rate"] > 0 for r in records)


def one_without_a_token(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Rollouts whose first response of each group holds nothing that the policy said."""
    out = tiny.fixed_rollouts(prompts, trainer)
    size = trainer.num_generations
    mask = [[int(i % size > 0)] * len(ids) for i, ids in enumerate(out["completion_ids"])]
    return {**out, "env_mask": mask}


@pytest.mark.parametrize("rule", RULES)
def test_a_response_without_a_valid_token_is_not_eligible(tmp_path: Path, rule: str) -> None:
    rows = tiny.pairs() if "paired" in RULES[rule].reads else None
    outcome = trained(tmp_path, rule, rows, rollout_func=one_without_a_token, max_steps=1)._outcome
    assert not outcome.eligible[:, 0].any() and not outcome.keep[:, 0].any()
    assert outcome.eligible[:, 1:].any()


@pytest.mark.parametrize(
    ("rule", "given", "complaint"),
    [
        ("majority", {}, "answer_rule=math"),
        ("scope", {}, "answer_rule=math"),
        ("verifier", {}, "monitor=math"),
        ("co_rewarding", {"answers": tiny.FirstLetter()}, "row 2 is 'p1'; in a recipe, name the column"),
    ],
)
def test_refused_without_what_it_reads(tmp_path: Path, rule: str, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tiny.trainer(tmp_path, reward_funcs=[], feedback=rule, **given)


def test_a_rule_that_returns_no_outcome_stops_with_one_message(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def mine(groups, settings):\n    return groups.length\n")
    with pytest.raises(UserError, match=r"mine\.py:mine': it returned Tensor, not a GroupOutcome"):
        trained(tmp_path, f"{tmp_path / 'mine.py'}:mine")


@pytest.mark.parametrize("rule", ["vigor", "co_rewarding_ema"])
@pytest.mark.parametrize("kind", ["DEEPSPEED", "FSDP"])
def test_refused_by_name_where_weights_are_sharded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, kind: str
) -> None:
    trainer = tiny.trainer(tmp_path, reward_funcs=[])
    trainer.args.feedback = rule
    monkeypatch.setattr(trainer.accelerator.state, "distributed_type", DistributedType[kind])
    with pytest.raises(ValueError, match=f"feedback='{rule}' does not work under"):
        type(trainer._evidence)(trainer, RULES[rule], tiny.FirstLetter(), num_monitors=0)


def test_a_question_and_its_rephrasing_are_drawn_together(tmp_path: Path) -> None:
    trainer = trained(tmp_path, "co_rewarding", tiny.pairs(), max_steps=6, samples_every=1, num_sampled_groups=4)
    assert trainer.state.global_step == 6
    samples = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    names = [s["id"] for s in samples[::4]]
    assert len(names) == 6 * 4
    assert all(other == own + "#rephrased" for own, other in zip(names[::2], names[1::2], strict=True))
    assert len(set(names[:12])) == 12  # an epoch is three steps and visits everything once


def test_an_answer_of_any_length_is_gathered_in_a_row_of_fixed_size() -> None:
    for answer in (None, "", "42", "\\frac{1}{2}", "é" * 100, "\ud800", "x" * (WIDTH - 2)):
        row = _encode(answer)
        assert len(row) == WIDTH and all(0 <= b < 256 for b in row) and _decode(row) == answer
    long, other = "y" * 5000, "y" * 4999 + "z"
    assert _encode(long) == _encode(long) != _encode(other) and len(_encode(long)) == WIDTH


def test_gradient_norms_are_those_of_a_plain_backward_pass(tmp_path: Path) -> None:
    policy = tiny.model(3)
    rollout = Rollout([[5, 6], [7], [8, 9, 10]], [[11, 12, 1], [13], [14, 15]], [[1, 0, 1], [1], [1, 1]])
    norms = gradient_norms(policy, rollout, 0.7, torch.device("cpu"))
    assert all(p.grad is None for p in policy.parameters())
    for row in range(3):
        prompt, completion = rollout.prompt_ids[row], rollout.completion_ids[row]
        logits = policy(torch.tensor([prompt + completion])).logits[0].double() / 0.7
        terms = [
            -logits[len(prompt) + t - 1].log_softmax(-1)[token]
            for t, token in enumerate(completion)
            if rollout.tool_mask[row][t]
        ]
        policy.zero_grad()
        (sum(terms) / len(terms)).backward()
        expected = math.sqrt(sum(float(p.grad.double().square().sum()) for p in policy.parameters()))
        assert norms[row].item() == pytest.approx(expected, rel=1e-4)


def test_gradient_norms_know_no_dropout_and_leave_every_module_as_it_was() -> None:
    policy = tiny.model(3, attention_dropout=0.9).train()
    policy.lm_head.eval()
    rollout = Rollout([[5, 6, 7, 8]], [[9, 10, 11, 12]], None)
    norms = [gradient_norms(policy, rollout, 1.0, torch.device("cpu")).item() for _ in range(3)]
    assert len(set(norms)) == 1
    assert {module.training for module in policy.model.modules()} == {True} and not policy.lm_head.training


def test_steps_end_where_a_blank_line_begins() -> None:
    assert step_numbers(["a", "\n", "b", "\n", "\n", "c", "d.\n\n", "e"]) == [0, 0, 0, 0, 0, 1, 1, 2]
    assert step_numbers(["a\n\n\n", "\nb"]) == [0, 1]

    class Pieces:
        def batch_decode(self, ids: list[list[int]]) -> list[str]:
            return [{1: "x", 2: "\n\n"}[i] for (i,) in ids]

    confidence = torch.tensor([[4.0, 2.0, 9.0, 0.0], [5.0, 7.0, 1.0, 1.0]])
    mask = torch.tensor([[True, True, True, False], [True, False, True, True]])
    values = step_confidence(confidence, mask, [[1, 2, 1], [1, 1, 2, 1]], Pieces())
    assert values.tolist() == pytest.approx([(3 + 9) / 2, (3 + 1) / 2])  # means of step means, tool tokens left out


def test_the_teacher_follows_slowly_and_is_resumed(tmp_path: Path) -> None:
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "save_total_limit": None}
    settings |= {"feedback": "co_rewarding_ema", "teacher_rate": 0.5, "teacher_rate_end": 0.5}

    def another(folder: Path) -> Any:
        return tiny.trainer(
            folder, reward_funcs=[], answers=tiny.FirstLetter(), rollout_func=tiny.fixed_rollouts, **settings
        )

    straight = another(tmp_path)
    straight.train()
    teacher, start = straight._evidence.teacher, tiny.model()
    assert (tmp_path / "checkpoint-2" / FILE).exists()
    for name, policy in straight.model.named_parameters():
        first, now = dict(start.named_parameters())[name], teacher._weights[name]
        assert (now - policy).norm() < (first - policy).norm() or torch.equal(first, policy)
    before = tiny.weights(straight)
    with teacher.in_place_of_policy():
        assert not torch.equal(tiny.weights(straight), before)
    assert torch.equal(tiny.weights(straight), before)
    again = another(tmp_path / "elsewhere")  # the checkpoint's teacher, wherever the run now writes
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for name, value in teacher._weights.items():
        assert torch.equal(value, again._evidence.teacher._weights[name]), name
    assert torch.equal(tiny.weights(again), before)
    (tmp_path / "checkpoint-2" / FILE).unlink()
    with pytest.raises(UserError, match=f"checkpoint-2 holds no {FILE}"):
        another(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
