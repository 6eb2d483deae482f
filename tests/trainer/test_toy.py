"""The paper's constructive example with our own trainer: a reward of mean certainty drives a policy through accuracy.

Completions have two tokens. The first is B, C or W, drawn from p_theta(b) proportional to p0(b) exp(theta d_b); only
C is correct. The second comes from a fixed nu_b with KL(U || nu_b) = d_b. Group-normalised mean certainty pushes
theta up whatever it is, so greedy accuracy goes from 0 (B) over 1 (C) back to 0 (W).
"""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from sif_trainer.certainty.formula import self_certainty
from sif_trainer.certainty.head import add_certainty_head
from sif_trainer.feedback.outcome import group_advantages
from sif_trainer.trainer.trainer import SIFTrainer

B, C, W, PROMPT = range(4)  # the prompt is one token of its own; the head knows only the first three
D = torch.tensor([0.0, 1.0, 2.0])
P0 = torch.tensor([0.80, 0.19, 0.01])
# nu_b = (a, (1 - a) / 2, (1 - a) / 2), with the a that makes KL(U || nu_b) = 0, 1, 2.
NU = torch.tensor(
    [[a, (1 - a) / 2, (1 - a) / 2] for a in (1 / 3, 0.9099687789779, 0.9806487992913)], dtype=torch.float64
)
THETA_BC, THETA_CW, THETA_PEAK = math.log(80 / 19), math.log(19), 0.5 * math.log(80)
GROUP = 8
BOUND = (GROUP - 1) / math.sqrt(GROUP)


class ToyConfig(PreTrainedConfig):
    model_type = "toy"


class ToyBackbone(nn.Module):
    """A state per token: what comes next depends on the token alone; theta is one coordinate of the prompt's state."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(()))
        self.register_buffer("states", torch.eye(5)[[2, 3, 4, 0]], persistent=False)
        self.register_buffer("direction", torch.eye(5)[1], persistent=False)

    def forward(self, input_ids: Tensor, **kwargs: Any) -> BaseModelOutput:
        is_prompt = (input_ids == PROMPT).unsqueeze(-1)
        return BaseModelOutput(self.states[input_ids] + is_prompt * self.theta * self.direction)


class ToyPolicy(PreTrainedModel, GenerationMixin):
    """Logits log p0 + theta d behind the prompt and log nu_b behind b; theta is all there is to train."""

    config_class = ToyConfig
    base_model_prefix = "model"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.model = ToyBackbone()
        self.lm_head = nn.Linear(5, 3, bias=False)
        self.post_init()
        table = torch.stack([P0.log(), D, *NU.float().log()], dim=1)
        self.lm_head.weight = nn.Parameter(table, requires_grad=False)

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> CausalLMOutput:
        return CausalLMOutput(logits=self.lm_head(self.model(input_ids).last_hidden_state))

    @torch.no_grad()
    def first_token(self) -> Tensor:
        """(3,) probabilities of B, C, W."""
        return self(torch.tensor([[PROMPT]])).logits[0, 0].softmax(-1)


def toy(theta: float = 0.0) -> ToyPolicy:
    policy = ToyPolicy(ToyConfig(vocab_size=3))
    policy.model.theta.data.fill_(theta)
    return policy


class ToyTrainer(SIFTrainer):
    """`SIFTrainer` that remembers what each step saw."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.history: list[dict[str, Any]] = []

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        self.history.append(
            {
                "theta": self.model.model.theta.item(),
                "greedy": self.model.first_token().argmax().item(),
                "largest_advantage": batch["advantages"].abs().max().item(),
                "d": D[batch["completion_ids"][:, 0]].view(-1, GROUP),
            }
        )
        return batch


def sample(prompts: list[Any], trainer: SIFTrainer) -> dict[str, Any]:
    first = trainer.model.first_token().multinomial(len(prompts), replacement=True)
    second = NU[first].multinomial(1).squeeze(1)
    completions = torch.stack([first, second], dim=1).tolist()
    return {
        "prompt_ids": [[PROMPT]] * len(prompts),
        "completion_ids": completions,
        "logprobs": [[0.0, 0.0]] * len(prompts),
    }


def test_theta_only_grows_and_greedy_accuracy_goes_from_0_to_1_to_0(tmp_path: Path) -> None:
    step_size, num_steps = 0.2, 70
    trainer = ToyTrainer(
        toy(),
        args=tiny.config(
            tmp_path,
            feedback="intuitor",  # mean certainty, and everybody is kept
            num_generations=GROUP,
            prompts_per_step=16,
            per_device_train_batch_size=16 * GROUP,
            max_completion_length=2,
            beta=0.0,
            optim="sgd",
            learning_rate=step_size,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=0.0,
            max_steps=num_steps,
            samples_every=0,
        ),
        train_dataset=Dataset.from_list([{"prompt": "p"}] * 16),
        processing_class=tiny.tokenizer(),
        rollout_func=sample,
    )
    trainer.train()
    history = trainer.history
    thetas = torch.tensor([*(step["theta"] for step in history), trainer.model.model.theta.item()])
    updates = thetas.diff()
    assert len(updates) == num_steps and (updates > 0).all()
    # The gradient of (1/G) sum_i (1/2) A_i log p(b_i) with A_i = (d_i - mean) / std is (G - 1) / (2 G) std.
    predicted = [(GROUP - 1) / (2 * GROUP) * step["d"].std(dim=1).mean().item() for step in history]
    torch.testing.assert_close(updates, step_size * torch.tensor(predicted), rtol=1e-3, atol=1e-6)
    assert all(step["largest_advantage"] <= BOUND * (1 + 1e-6) for step in history)
    assert max(step["largest_advantage"] for step in history) > 0.999 * BOUND
    answers = [int(token == C) for token, _ in groupby(step["greedy"] for step in history)]
    assert answers == [0, 1, 0]
    # The flow theta' = E[gradient] reaches the two crossings at 6.45 and 11.63.
    times = [step_size * next(i for i, t in enumerate(thetas) if t > crossing) for crossing in (THETA_BC, THETA_CW)]
    assert times == pytest.approx([6.45, 11.63], rel=0.1)


def certainties(theta: float) -> tuple[Tensor, Tensor]:
    """First-token and (3,) second-token self-certainty of the policy, through the formula."""
    logits = toy(theta)(torch.tensor([[PROMPT, B], [PROMPT, C], [PROMPT, W]])).logits
    certainty = self_certainty(logits)
    return certainty[0, 0], certainty[:, 1]


@pytest.mark.parametrize(
    ("theta", "probabilities", "first_certainty"),
    [
        (0.0, (0.80, 0.19, 0.01), 1.064403),
        (THETA_BC, (0.450125, 0.450125, 0.099751), 0.201902),
        (THETA_PEAK, (0.2424674705, 0.5150650590, 0.2424674705), 0.067134),
        (THETA_CW, (0.099751, 0.450125, 0.450125), 0.201902),
        (4.0, None, 0.777566),
        (10.0, None, 6.460095),
    ],
)
def test_the_policy_has_the_closed_forms_probabilities_and_certainties(
    theta: float, probabilities: tuple[float, ...] | None, first_certainty: float
) -> None:
    if probabilities is not None:
        assert toy(theta).first_token().tolist() == pytest.approx(probabilities, abs=1e-6)
    first, second = certainties(theta)
    assert first.item() == pytest.approx(first_certainty, abs=2e-6)
    assert second.tolist() == pytest.approx([0, 1, 2], abs=2e-6)
    log_normaliser = math.log(0.80 + 0.19 * math.exp(theta) + 0.01 * math.exp(2 * theta))
    assert first.item() == pytest.approx(log_normaliser - theta - math.log(3) - P0.log().mean().item(), abs=2e-6)


def test_the_certainty_head_sees_the_same_values() -> None:
    policy = toy(1.0)
    add_certainty_head(policy)
    ids = torch.tensor([[PROMPT, B, B], [PROMPT, C, W], [PROMPT, W, C]])
    labels = ids.masked_fill(ids == PROMPT, -100)
    scores = policy(input_ids=ids, labels=labels, token_scores=True)
    first, second = certainties(1.0)
    torch.testing.assert_close(scores.certainty[:, 0], first.expand(3))
    torch.testing.assert_close(scores.certainty[:, 1], second)


@pytest.mark.parametrize(
    ("theta", "mean_certainty", "slope"),
    [(0.0, 0.637201, -0.302050), (THETA_PEAK, 0.533567, 0.242467), (3.0, 0.797954, 0.396468), (5.0, 1.731683, None)],
)
def test_expected_reward_falls_at_first_and_grows_beyond_the_peak(
    theta: float, mean_certainty: float, slope: float | None
) -> None:
    policy = toy(theta)
    logits = policy(torch.tensor([[PROMPT]])).logits[0, 0]
    expected = (logits.softmax(-1) * (self_certainty(logits) + D) / 2).sum()
    assert expected.item() == pytest.approx(mean_certainty, abs=2e-6)
    expected.backward()
    if slope is not None:
        assert policy.model.theta.grad.item() == pytest.approx(slope, abs=2e-6)


@pytest.mark.parametrize(("theta", "slope"), [(0.0, 0.1501), (1.0, 0.193996), (THETA_PEAK, 0.0), (3.0, -0.164941)])
def test_accuracy_peaks_between_the_crossings(theta: float, slope: float) -> None:
    policy = toy(theta)
    policy(torch.tensor([[PROMPT]])).logits[0, 0].softmax(-1)[C].backward()
    assert policy.model.theta.grad.item() == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (8, {0.0: 0.167119, 1.0: 0.252261, 2.0: 0.295937, 3.0: 0.275724, 5.0: 0.113277}),
        (2, {0.0: 0.060069, 1.0: 0.104170, 2.0: 0.129192, 3.0: 0.117661, 5.0: 0.037477}),
    ],
)
def test_expected_group_gradient_is_positive_and_independent_of_the_rewards_scale(
    group: int, expected: dict[float, float]
) -> None:
    counts = [(b, c, group - b - c) for b in range(group + 1) for c in range(group + 1 - b)]
    d = torch.stack([D.double().repeat_interleave(torch.tensor(count)) for count in counts])
    ways = torch.tensor([math.factorial(group) / math.prod(map(math.factorial, count)) for count in counts])
    for theta, value in expected.items():
        first = toy(theta).first_token().double()
        chance = ways * (first ** torch.tensor(counts)).prod(-1)
        assert chance.sum().item() == pytest.approx(1, abs=1e-6)
        for scale in (0.5, 7.0):
            advantage = group_advantages(scale * d, torch.ones_like(d, dtype=torch.bool), epsilon=0.0)
            gradient = (advantage * (d - (first * D).sum())).sum(-1) / (2 * group)
            assert (chance * gradient).sum().item() == pytest.approx(value, abs=2e-6)
            assert value <= 0.5 * math.sqrt((group - 1) / group)
