"""What the trainer asks of vLLM, as far as it can be tried without: settings, recorded scores, fingerprints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
import torch
from torch import nn
from transformers import TrainerControl, TrainerState

from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.engine_certainty import EngineCertainty
from sif_trainer.trainer.engine_weights import EngineWeights
from sif_trainer.trainer.recorder import Recorder
from sif_trainer.trainer.scoring import Rollout

ENGINE = {"certainty_source": "engine", "use_vllm": True}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"certainty_source": "server"}, "must be 'model' or 'engine'"),
        ({**ENGINE, "use_vllm": False}, "set use_vllm=true"),
        ({**ENGINE, "vllm_mode": "server"}, "set vllm_mode=colocate"),
        ({**ENGINE, "feedback": "scope"}, "reads step_confidence as well"),
        ({**ENGINE, "generation_kwargs": {"min_tokens": 3}}, "under min_tokens"),
        ({**ENGINE, "vllm_structured_outputs_regex": "a+"}, "under vllm_structured_outputs_regex"),
    ],
)
def test_what_the_engine_cannot_record_is_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny.config(tmp_path, **settings)


def test_tools_and_rollouts_of_ones_own_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set certainty_source=model"):
        tiny.trainer(tmp_path, rollout_func=tiny.fixed_rollouts, **ENGINE)


def test_recorded_scores_become_rows() -> None:
    engine = EngineCertainty()
    first: list[int] = []
    second: list[int] = []
    engine.recording.update((), [(0, [1], first, 1.0), (1, [1, 2], second, 1.0)], ())
    for step, drawn in enumerate([(5, 6), (7, 8)]):
        engine.recording.record(torch.tensor([1.0, 2.0]) + step, torch.tensor([0.1, 0.2]) + step)
        first.append(drawn[0])
        second.append(drawn[1])
    rollout = Rollout([[1], [1, 2]], [[5, 7], [6]], tool_mask=None, log_probs=[[-1.0, None], [-2.0]])
    scores = engine.scores(rollout, torch.device("cpu"))
    assert scores.certainty.tolist() == [[1.0, 2.0], [2.0, 0.0]]
    torch.testing.assert_close(scores.entropy, torch.tensor([[0.1, 1.1], [0.2, 0.0]]))
    torch.testing.assert_close(scores.log_probs, torch.tensor([[-1.0, torch.nan], [-2.0, 0.0]]), equal_nan=True)
    with pytest.raises(ValueError, match="not recorded"):  # each rollout has its own
        engine.scores(rollout, torch.device("cpu"))


class Generation:
    """TRL's side of a transfer: an engine in bf16 with a fused layer, and what is sent to it."""

    def __init__(self, deaf: str = "") -> None:
        torch.manual_seed(0)
        self.policy = nn.ModuleDict({"norm": nn.LayerNorm(8), "q": nn.Linear(8, 9000), "o": nn.Linear(9000, 8)})
        self.engine = nn.ModuleDict({"norm": nn.LayerNorm(8), "qkv": nn.Linear(8, 9000), "o": nn.Linear(9000, 8)})
        self.engine.bfloat16()
        self.deaf = deaf
        runner = SimpleNamespace(model=self.engine)
        executor = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        self.llm = SimpleNamespace(llm_engine=SimpleNamespace(model_executor=executor))

    def _iter_named_params(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self.policy.named_parameters()

    def sync_weights(self) -> None:
        held = dict(self.engine.named_parameters())
        for name, parameter in self._iter_named_params():
            if name in held and name != self.deaf:
                held[name].data.copy_(parameter)


def test_equal_weights_differ_by_nothing_and_later_drift_is_measured() -> None:
    generation = Generation()
    watch = EngineWeights(generation)
    assert watch.difference is None
    for _ in range(2):
        generation.sync_weights()
        assert watch.difference == 0.0
        for parameter in generation.policy.parameters():
            parameter.data += 0.1
    generation.deaf = "o.weight"
    generation.sync_weights()
    assert watch.difference > 0.4


def test_other_weights_at_the_first_transfer_stop_the_run() -> None:
    generation = Generation(deaf="norm.weight")
    generation.policy["norm"].weight.data *= 1.01
    EngineWeights(generation)
    with pytest.raises(UserError, match=r"differ from the trainer's by 0\.0"):
        generation.sync_weights()


def test_other_log_probabilities_in_the_first_step_stop_the_run(tmp_path: Path) -> None:
    def log(recorder: Recorder, *differences: float) -> None:
        for step, difference in enumerate(differences):
            logs = {"step_time": 1.0, "sampling/sampling_logp_difference/mean": difference}
            recorder.on_log(None, TrainerState(global_step=step + 1), TrainerControl(), logs=logs)

    log(Recorder(tmp_path / "fine", is_main=False), 0.03, 0.9)  # later on it is for the health watch
    with pytest.raises(UserError, match=r"differ by 0\.90 nats per token in the first step"):
        log(Recorder(tmp_path / "other", is_main=False), 0.9)
