"""`SIFTrainer`: TRL's GRPO trainer that learns from the policy's own certainty, without a reward function.

    trainer = SIFTrainer("Qwen/Qwen2.5-Math-1.5B", args=SIFConfig(output_dir="out"), train_dataset=prompts)
    trainer.train()

Six small overrides wrap `super()` and copy nothing; trainer/contract.py names all of TRL that they lean on. A
response whose reward is NaN is not eligible: TRL leaves it out of every group statistic, and the update mask out of
the loss.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import is_peft_model
from datasets import Dataset, IterableDataset
from torch import Tensor
from torch.utils.data import Sampler
from transformers import PrinterCallback
from trl import GRPOTrainer

from sif_trainer.certainty.head import TokenScores, add_certainty_head, record_certainty
from sif_trainer.feedback.groups import Groups
from sif_trainer.feedback.outcome import GroupOutcome, group_advantages, groups_with_a_difference
from sif_trainer.feedback.rule import complaint
from sif_trainer.feedback.sif import window_votes
from sif_trainer.runs.errors import UserError
from sif_trainer.trainer.answers import AnswerReader
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.contract import check_contract
from sif_trainer.trainer.dataset import check_pairs, named_columns_only, prompts_only
from sif_trainer.trainer.engine_certainty import EngineCertainty
from sif_trainer.trainer.engine_weights import EngineWeights
from sif_trainer.trainer.evidence import Evidence, as_text
from sif_trainer.trainer.metrics import answer_metrics, monitor_metrics, verdict_metrics, vote_metrics
from sif_trainer.trainer.pieces import token_pieces
from sif_trainer.trainer.recorder import Recorder
from sif_trainer.trainer.reference import loadable_reference
from sif_trainer.trainer.sampler import EpochSeededSampler, PairedSampler
from sif_trainer.trainer.scoring import ResponseStatistics, Rollout, response_statistics, score_rollout
from sif_trainer.trainer.update_mask import apply_update_mask, replace_rows


def sif(completions: list[Any], **kwargs: Any) -> list[float]:
    """Hold the vote's place among TRL's reward functions; `_calculate_rewards` fills its column in."""
    return [0.0] * len(completions)


class SIFTrainer(GRPOTrainer):
    """Drop-in for `GRPOTrainer`; takes the same arguments.

    Args:
        model: a causal language model, or its name or path.
        reward_funcs: monitors, in TRL's signature. They are logged and have weight 0, unless `args.reward_weights`
            (one number per monitor) gives them weight; then each is standardised within the group, over its eligible
            responses, and its weighted advantage is added to the vote's. A data set column reaches a monitor only if
            the monitor names it as a parameter; no other column enters the trainer.
        args: settings; `SIFConfig()` is the paper's.
        train_dataset: rows with a `prompt` (text or messages) and, optionally, an `id`.
        answers: finds and compares final answers, for a rule that votes by answer (`tasks.agreement.AnswerReader`).

    Raises:
        ValueError: for a streamed or multimodal data set, a model whose logits are transformed in an unknown way, a
            rule that lacks what it reads or cannot run on this many processes, and settings that cannot work.
        ImportError: when the installed TRL is not as this class relies on, naming what is not.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        args: SIFConfig | None = None,
        train_dataset: Dataset | None = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        answers: AnswerReader | None = None,
        **kwargs: Any,
    ) -> None:
        if breaches := check_contract():
            raise ImportError("\n".join(breaches))
        monitors = _as_list(reward_funcs)
        args = copy.copy(args or SIFConfig())
        if not isinstance(args, SIFConfig):
            raise TypeError(f"args must be a SIFConfig, not a {type(args).__name__}: the vote's settings are in it")
        self._weights = [1.0, *(args.reward_weights or [0.0] * len(monitors))]
        if len(self._weights) != 1 + len(monitors):
            raise ValueError(
                f"reward_weights has {len(self._weights) - 1} numbers for {len(monitors)} reward functions"
            )
        args.reward_weights = self._weights
        if isinstance(train_dataset, IterableDataset):
            raise ValueError("a streamed data set has no fixed groups and no length; load it as a `datasets.Dataset`")
        if not isinstance(train_dataset, Dataset):
            raise ValueError(
                f"train_dataset must be a datasets.Dataset of prompts, not {type(train_dataset).__name__}"
            )
        if len(train_dataset) < args.batch_plan.prompts_per_step:
            raise ValueError(
                f"{len(train_dataset)} prompts are fewer than prompts_per_step={args.batch_plan.prompts_per_step}, so "
                "that an epoch has no step; lower it, or give more prompts"
            )
        self._rule = args.find_rule()
        if "paired" in self._rule.reads:
            check_pairs(train_dataset)
        train_dataset = prompts_only(train_dataset, monitors)
        monitors = [named_columns_only(monitor, train_dataset.column_names) for monitor in monitors]
        if isinstance(eval_dataset, Dataset):
            eval_dataset = prompts_only(eval_dataset, monitors)
        elif isinstance(eval_dataset, dict):
            eval_dataset = {name: prompts_only(part, monitors) for name, part in eval_dataset.items()}
        if kwargs.get("reward_processing_classes") is not None:
            kwargs["reward_processing_classes"] = [None, *_as_list(kwargs["reward_processing_classes"])]
        self._engine = EngineCertainty() if args.certainty_source == "engine" else None
        if self._engine and any(kwargs.get(name) for name in ("tools", "environment_factory", "rollout_func")):
            raise ValueError(
                "certainty_source='engine' records plain completions; with tools, environments or a rollout_func, set "
                "certainty_source=model"
            )
        with loadable_reference(model), self._engine.built_in() if self._engine else nullcontext():
            super().__init__(
                model,
                reward_funcs=[sif, *monitors],
                args=args,
                train_dataset=train_dataset,
                eval_dataset=eval_dataset,
                processing_class=processing_class,
                **kwargs,
            )
        if is_peft_model(self.model) and self.model.active_peft_config.is_prompt_learning:
            raise ValueError(
                "prompt-learning adapters (prompt tuning, prefix tuning) hide their reference pass from the scoring "
                "of certainty; use LoRA, or train the whole model"
            )
        self._scored_model = self.model.get_base_model() if is_peft_model(self.model) else self.model
        self._evidence = Evidence(self, self._rule, answers, num_monitors=len(monitors))
        add_certainty_head(
            self._scored_model, self.temperature, args.cast_lm_head_to_fp32, self._evidence.confidence_top_k
        )
        colocated = args.use_vllm and args.vllm_mode == "colocate"
        self._engine_weights = EngineWeights(self.vllm_generation) if colocated else None
        self.recorder = Recorder(Path(args.output_dir), self.accelerator.is_main_process)
        self.remove_callback(PrinterCallback)  # the health line says it better
        self.add_callback(self.recorder)

    # --- rollouts: remember, score, vote --------------------------------------------------------------------------

    def _generate(self, prompts: list[Any]) -> Any:
        if self._engine:
            self._engine.recording.clear()
        with self._seconds("time/generate"):
            out = super()._generate(prompts)
        self._rollout = Rollout(prompt_ids=out[0], completion_ids=out[1], tool_mask=out[2], log_probs=out[4])
        if self.model.training and self._engine_weights and self._engine_weights.difference is not None:
            self._log_metric("engine/weight_difference", self._engine_weights.difference)
        return out

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any], completion_ids_list: list[Any]
    ) -> Tensor:
        table = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if not self.model.training:  # evaluation may have one response per prompt: nobody to vote
            table[:, 0] = torch.nan
            return table
        with self._seconds("time/score"):
            scores = self._token_scores()
        texts = [as_text(completion) for completion in completions]
        extra = self._evidence.columns(scores, self._rollout)
        rows = response_statistics(scores, self._rollout, self._truncated(), texts, self.args, **extra)
        statistics = ResponseStatistics.from_rows(self.accelerator.gather(rows))
        self._check_groups(statistics.prompt_hash)
        groups = self._evidence.groups(statistics, texts, prompts, verdicts=table[:, 1:])
        self._outcome = self._vote(groups, table)
        self._finite = self._local(statistics.finite)
        table[:, 0] = self._outcome.reward.flatten()
        monitors = dict(zip(self.reward_func_names[1:], table[:, 1:].unbind(1), strict=True))
        metrics = {
            **vote_metrics(statistics, self._outcome),
            **monitor_metrics(monitors, self._outcome),
            **verdict_metrics(monitors, self._outcome),
            **answer_metrics(groups.answer),
        }
        for name, value in metrics.items():
            self._log_metric(name, value)
        self._sample_completions(inputs, prompts, texts, scores.certainty, statistics, monitors)
        return table

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        with record_certainty(self._scored_model) as self._tape:
            batch = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return batch
        outcome = self._outcome
        replace_rows(batch, ~self._finite)
        batch["advantages"] = self._local(outcome.advantage.flatten()).to(batch["advantages"])
        apply_update_mask(
            batch,
            keep=self._local(outcome.keep.flatten()),
            num_rows=outcome.keep.numel(),
            num_kept=int(outcome.keep.sum()),
            loss_type=self.loss_type,
            normalize_by=self.args.normalize_by,
            sum_over_processes=lambda count: self.accelerator.gather(count).sum(),
        )
        return batch

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return super()._compute_loss(model, inputs) * inputs.get("loss_scale", 1.0)

    def _get_train_sampler(self, dataset: Dataset | None = None) -> Sampler[int]:
        kind = PairedSampler if "paired" in self._rule.reads else EpochSeededSampler
        return kind(super()._get_train_sampler(dataset), self.args.seed)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self._evidence.teacher is not None:
            self._evidence.teacher.load(Path(checkpoint))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: TRL's would call the model trained with GRPO, with a link to a base model that it guesses."""

    # --- parts ----------------------------------------------------------------------------------------------------

    def _token_scores(self) -> TokenScores:
        """(B, T) scores of this process's completions: from the engine, from TRL's scoring pass, or from ours."""
        rollout, device = self._rollout, self.accelerator.device
        if self._engine is None:
            return self._taped_scores() or self._own_scores()
        scores = self._engine.scores(rollout, device)
        if taped := self._taped_scores():
            mask = rollout.valid_mask(device)
            difference = (scores.certainty - taped.certainty).abs()[mask]
            self._log_metric("engine/certainty_difference", difference.mean().item())
        return scores

    def _taped_scores(self) -> TokenScores | None:
        if not self._tape or self.mask_truncated_completions:  # else its pass left truncated responses out
            return None
        width = max(len(ids) for ids in self._rollout.completion_ids)
        padded = _padded_width(width, self.pad_to_multiple_of)
        parts = {name: torch.cat([part[name] for part in self._tape]) for name in self._tape[0]}  # those not None
        return TokenScores(**{name: value[:, -padded:][:, :width] for name, value in parts.items()})

    def _own_scores(self) -> TokenScores:
        batch_size, device = self.args.per_device_train_batch_size, self.accelerator.device
        with self.accelerator.autocast():
            return score_rollout(self.model, self._rollout, self._tokenizer.pad_token_id, batch_size, device)

    def _vote(self, groups: Groups, table: Tensor) -> GroupOutcome:
        shape = groups.usable.shape
        outcome = self._rule.decide(groups, self.args)
        if wrong := complaint(outcome, groups):
            raise UserError(f"feedback='{self.args.feedback}': {wrong}")
        for weight, column in zip(self._weights[1:], table[:, 1:].unbind(1), strict=True):
            if weight:
                outcome = _add_reward(outcome, weight, column.view(shape), self.args.advantage_epsilon)
        return outcome

    def _check_groups(self, prompt_hash: Tensor) -> None:
        groups = prompt_hash.view(-1, self.num_generations)
        if (groups != groups[:, :1]).any():
            raise RuntimeError(
                f"the {self.num_generations} responses of a group do not share one prompt after gathering: the "
                "sampler or the number of processes changed under the trainer"
            )

    def _truncated(self) -> list[bool]:
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        return [not ids or ids[-1] not in ends for ids in self._rollout.completion_ids]

    def _local(self, values: Tensor) -> Tensor:
        """Slice the rows of this process out of (N, …) gathered ones."""
        num_rows = len(self._rollout.completion_ids)
        start = self.accelerator.process_index * num_rows
        return values[start : start + num_rows]

    def _sample_completions(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        texts: list[str],
        certainty: Tensor,
        statistics: ResponseStatistics,
        monitors: dict[str, Tensor],
    ) -> None:
        step = self.state.global_step + 1
        every = self.args.samples_every
        if not every or (step - 1) % every or not self.accelerator.is_main_process:
            return
        outcome, size = self._outcome, self.num_generations
        for group in range(min(self.args.num_sampled_groups, len(prompts) // size)):
            profiles = statistics.profile[group * size : (group + 1) * size]
            votes = window_votes(profiles.unsqueeze(0))[0] if self._rule.needs_windows else None
            for member in range(size):
                row = group * size + member
                eligible = bool(outcome.eligible[group, member])
                ids = self._rollout.completion_ids[row]
                self.recorder.samples.append(
                    {
                        "step": step,
                        "id": inputs[row].get("id"),
                        "group": group,
                        "prompt": prompts[row],
                        "completion": texts[row],
                        "length": int(statistics.length[row]),
                        "truncated": bool(statistics.truncated[row]),
                        "eligible": eligible,
                        "profile": statistics.profile[row].tolist() if eligible else None,
                        "windows_won": votes[member].tolist() if eligible and votes is not None else None,
                        "peer_wins": int(outcome.peer_wins[group, member]) if eligible else None,
                        "reward": outcome.reward[group, member].item(),
                        "advantage": outcome.advantage[group, member].item(),
                        "keep": bool(outcome.keep[group, member]),
                        **{f"monitor/{name}": values[row].item() for name, values in monitors.items()},
                        "tokens": token_pieces(self._as_text, ids),
                        "token_certainty": [round(value, 2) for value in certainty[row, : len(ids)].tolist()],
                    }
                )

    def _as_text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    @contextmanager
    def _seconds(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if self.model.training:
            self._log_metric(name, time.perf_counter() - start)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _add_reward(outcome: GroupOutcome, weight: float, reward: Tensor, epsilon: float) -> GroupOutcome:
    """Add a weighted reward's advantage to the vote's; a group is kept if either has a difference to teach."""
    scored = outcome.eligible & ~reward.isnan()
    decided = scored & groups_with_a_difference(reward, scored).unsqueeze(-1)
    return GroupOutcome(
        reward=outcome.reward,
        advantage=outcome.advantage + weight * group_advantages(reward, scored, epsilon),
        keep=outcome.keep | decided,
        peer_wins=outcome.peer_wins,
        margin=outcome.margin,
    )


def _padded_width(width: int, multiple: int | None) -> int:
    return width if multiple is None else -(-width // multiple) * multiple
