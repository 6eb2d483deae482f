"""What must hold of a whole step: exact masks, one update however a batch is split, no road for answers or NaN."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
import torch

from sif_trainer.runs.errors import UserError


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_training_writes_metrics_and_samples(tmp_path: Path) -> None:
    trained = tiny.trainer(tmp_path, samples_every=2)
    before = tiny.weights(trained)
    trained.train()
    assert not torch.equal(before, tiny.weights(trained))
    metrics = read(tmp_path / "metrics.jsonl")
    assert [record["step"] for record in metrics] == [1, 2, 3]
    for record in metrics:
        assert 0 <= record["sif/keep_rate"] <= record["sif/eligible_rate"] <= 1
        assert record["time/generate_share"] + record["time/score_share"] + record[
            "time/update_share"
        ] == pytest.approx(1)
    samples = read(tmp_path / "samples.jsonl")
    assert {record["step"] for record in samples} == {1, 3}
    assert len(samples) == 2 * 2 * 4
    for record in samples:
        assert record["eligible"] == (record["reward"] is not None) == (record["profile"] is not None)
        assert record["keep"] <= record["eligible"]
        assert "".join(record["tokens"]) == record["completion"]
        assert len(record["tokens"]) == len(record["token_certainty"]) == record["length"]
        if record["eligible"]:  # the first window holds the most certain tokens
            assert record["profile"][0] <= max(record["token_certainty"]) + 0.005
            assert record["profile"][-1] >= min(record["token_certainty"]) - 0.005


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo"])
@pytest.mark.parametrize("normalize_by", ["kept", "all"])
def test_one_update_however_the_batch_is_split(tmp_path: Path, loss_type: str, normalize_by: str) -> None:
    updates = []
    for per_device in (16, 8, 4, 2):
        trained = tiny.trainer(
            tmp_path / f"{per_device}",
            rollout_func=tiny.fixed_rollouts,
            per_device_train_batch_size=per_device,
            max_steps=1,
            optim="sgd",
            learning_rate=1.0,
            max_grad_norm=0,
            loss_type=loss_type,
            normalize_by=normalize_by,
        )
        before = tiny.weights(trained)
        trained.train()
        updates.append(tiny.weights(trained) - before)
    assert updates[0].abs().max() > 1e-4
    for update in updates[1:]:
        torch.testing.assert_close(update, updates[0], rtol=1e-4, atol=1e-6)


def test_kept_and_all_differ_by_the_keep_rate(tmp_path: Path) -> None:
    updates = {}
    for normalize_by in ("kept", "all"):
        trained = tiny.trainer(
            tmp_path / normalize_by,
            rollout_func=tiny.fixed_rollouts,
            max_steps=1,
            optim="sgd",
            learning_rate=1.0,
            max_grad_norm=0,
            weight_decay=0.0,
            normalize_by=normalize_by,
        )
        before = tiny.weights(trained)
        trained.train()
        updates[normalize_by] = tiny.weights(trained) - before
        keep_rate = read(tmp_path / normalize_by / "metrics.jsonl")[0]["sif/keep_rate"]
    assert 0 < keep_rate < 1
    torch.testing.assert_close(updates["kept"] * keep_rate, updates["all"], rtol=1e-4, atol=1e-6)


def test_a_step_that_keeps_nothing_changes_nothing_and_training_goes_on(tmp_path: Path) -> None:
    # Nobody is eligible: every response is shorter than the windows ask for.
    trained = tiny.trainer(tmp_path, window_size=12, min_stride=0, rollout_func=tiny.fixed_rollouts, weight_decay=0.0)
    before = tiny.weights(trained)
    trained.train()
    assert torch.equal(before, tiny.weights(trained))
    metrics = read(tmp_path / "metrics.jsonl")
    assert [record["sif/keep_rate"] for record in metrics] == [0, 0, 0]
    assert all(record["loss"] == 0 and record["grad_norm"] == 0 for record in metrics)


def test_training_stops_with_advice_when_nothing_is_ever_eligible(tmp_path: Path) -> None:
    trained = tiny.trainer(
        tmp_path,
        window_size=12,
        min_stride=0,
        rollout_func=tiny.fixed_rollouts,
        max_steps=9,
        max_steps_without_update=2,
    )
    with pytest.raises(UserError, match=r"no response was eligible in 2 logged steps.*need 12.*window_size"):
        trained.train()
    assert len(read(tmp_path / "metrics.jsonl")) == 2


def reads_answers(completions: list, answer: list, **kwargs: object) -> list[float]:
    return [float(text.endswith(a)) for text, a in zip(completions, answer, strict=True)]


def test_scrambled_answers_give_bit_identical_weights(tmp_path: Path) -> None:
    rows = tiny.prompts()
    scrambled = rows.remove_columns("answer").add_column("answer", list(reversed(rows["answer"])))
    results, monitored = [], []
    for name, dataset in (("straight", rows), ("scrambled", scrambled)):
        trained = tiny.trainer(tmp_path / name, dataset=dataset, reward_funcs=reads_answers)
        trained.train()
        results.append(tiny.weights(trained))
        monitored.append([r["monitor/reads_answers/all"] for r in read(tmp_path / name / "metrics.jsonl")])
    assert torch.equal(results[0], results[1])
    assert monitored[0] != monitored[1], "the monitor must have seen the answers, or this test shows nothing"


def test_columns_that_no_monitor_names_do_not_enter(tmp_path: Path) -> None:
    assert tiny.trainer(tmp_path).train_dataset.column_names == ["id", "prompt"]
    named = tiny.trainer(tmp_path, reward_funcs=[reads_answers]).train_dataset.column_names
    assert sorted(named) == ["answer", "id", "prompt"]


def length(completions: list, **kwargs: object) -> list[float]:
    return [float(len(text)) for text in completions]


def test_a_monitor_has_no_weight_unless_it_is_given(tmp_path: Path) -> None:
    results = {}
    for name, settings in {
        "none": {},
        "monitor": {"reward_funcs": [length]},
        "weighted": {"reward_funcs": [length], "reward_weights": [0.5]},
    }.items():
        trained = tiny.trainer(tmp_path / name, max_steps=1, **settings)
        trained.train()
        results[name] = tiny.weights(trained)
    assert torch.equal(results["none"], results["monitor"])
    assert not torch.equal(results["none"], results["weighted"])


def test_weights_must_match_the_monitors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 numbers for 1 reward functions"):
        tiny.trainer(tmp_path, reward_funcs=[length], reward_weights=[1.0, 1.0])


POISON = 19  # the letter q, which no prompt holds


def poison_logits(module: torch.nn.Module, args: tuple, output: torch.Tensor, ids: list) -> None:
    output[(ids[0] == POISON).any(1)] = torch.nan


def test_non_finite_logits_drop_their_response_and_nothing_else(tmp_path: Path) -> None:
    policy = tiny.model()
    current: list[torch.Tensor] = [torch.zeros(1, 1)]

    def remember(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        current[0] = kwargs["input_ids"]

    policy.model.register_forward_pre_hook(remember, with_kwargs=True)
    policy.model.norm.register_forward_hook(lambda m, a, out: poison_logits(m, a, out, current))
    trained = tiny.trainer(tmp_path, policy=policy, rollout_func=tiny.fixed_rollouts, max_steps=2)
    trained.train()
    assert tiny.weights(trained).isfinite().all()
    metrics = read(tmp_path / "metrics.jsonl")
    assert sum(record["sif/num_nonfinite"] for record in metrics) > 0
    assert all(record["grad_norm"] > 0 for record in metrics)


def test_streamed_data_and_missing_prompts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="streamed"):
        tiny.trainer(tmp_path, dataset=tiny.prompts().to_iterable_dataset())
    with pytest.raises(ValueError, match="no column 'prompt'; its columns are: id, text"):
        tiny.trainer(tmp_path, dataset=tiny.prompts().rename_column("prompt", "text").remove_columns("answer"))


def test_every_step_is_recorded_when_a_batch_is_used_twice(tmp_path: Path) -> None:
    tiny.trainer(tmp_path, num_iterations=2, max_steps=4, samples_every=0).train()
    metrics = read(tmp_path / "metrics.jsonl")
    assert [record["step"] for record in metrics] == [1, 2, 3, 4]
    assert ["sif/keep_rate" in record for record in metrics] == [True, False, True, False]


def test_certainty_comes_out_of_the_scoring_pass_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sif_trainer.trainer import trainer as module

    measured = {}
    own_pass = module.score_rollout
    for num_iterations in (1, 2):
        calls: list[int] = []
        monkeypatch.setattr(module, "score_rollout", lambda *args, calls=calls: (calls.append(1), own_pass(*args))[1])
        folder = tmp_path / str(num_iterations)
        tiny.trainer(folder, rollout_func=tiny.fixed_rollouts, num_iterations=num_iterations, max_steps=1).train()
        assert len(calls) == (1 if num_iterations == 1 else 0)
        measured[num_iterations] = read(folder / "metrics.jsonl")[0]
    for name in ("sif/certainty_mean", "sif/certainty_variance", "sif/entropy", "sif/keep_rate", "sif/window_margin"):
        assert measured[1][name] == pytest.approx(measured[2][name], rel=1e-5), name


def test_masked_truncated_responses_are_not_eligible_and_still_measured(tmp_path: Path) -> None:
    measured = {}
    for num_iterations in (1, 2):  # with two passes TRL scores by itself, and leaves truncated responses out
        folder = tmp_path / str(num_iterations)
        trained = tiny.trainer(folder, num_iterations=num_iterations, mask_truncated_completions=True, max_steps=1)
        trained.train()
        measured[num_iterations] = read(folder / "metrics.jsonl")[0]
    assert 0 < measured[1]["sif/truncated_rate"] < 1
    assert measured[1]["sif/eligible_rate"] <= 1 - measured[1]["sif/truncated_rate"]
    assert measured[1]["sif/certainty_mean"] == pytest.approx(measured[2]["sif/certainty_mean"], rel=1e-5)


def test_settings_of_another_trainer_are_refused(tmp_path: Path) -> None:
    from trl import GRPOConfig

    from sif_trainer.trainer.trainer import SIFTrainer

    with pytest.raises(TypeError, match="args must be a SIFConfig, not a GRPOConfig"):
        SIFTrainer(tiny.model(), args=GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False))
