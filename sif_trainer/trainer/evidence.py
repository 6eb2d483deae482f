"""What the chosen rule reads, from a rollout: the trainer computes this and nothing more.

Certainty comes with every scoring pass. Some rules read more (`Rule.reads`): answers, a teacher's answers, gradient
norms, step confidence, a verifier's verdicts. This file gathers them into the rule's `Groups`.

Shapes: B completions of this process, N over all processes, G per group, T tokens.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from accelerate.utils import DistributedType
from torch import Tensor
from trl import GRPOTrainer

from sif_trainer.certainty.head import TokenScores
from sif_trainer.feedback.groups import Groups, usable_responses
from sif_trainer.feedback.rule import Rule
from sif_trainer.trainer.answers import AnswerReader, answer_classes
from sif_trainer.trainer.gradient_norm import gradient_norms
from sif_trainer.trainer.scoring import ResponseStatistics, Rollout
from sif_trainer.trainer.steps import step_confidence
from sif_trainer.trainer.teacher import Teacher

if TYPE_CHECKING:
    from sif_trainer.trainer.trainer import SIFTrainer

_SHARDED = {
    DistributedType.DEEPSPEED: "DeepSpeed",
    DistributedType.FSDP: "FSDP",
    DistributedType.MEGATRON_LM: "Megatron",
}


class Evidence:
    """Computes the optional fields of `Groups` that a rule reads.

    Args:
        trainer: whose rollouts they are about.
        rule: the chosen rule.
        answers: finds and compares final answers.
        num_monitors: how many reward functions the trainer has besides the rule.

    Raises:
        ValueError: when the rule reads what it was not given, or what this kind of distributed run cannot give it.
    """

    def __init__(self, trainer: SIFTrainer, rule: Rule, answers: AnswerReader | None, num_monitors: int) -> None:
        self.trainer = trainer
        self.reads = rule.reads
        self.answers = answers
        args, name = trainer.args, f"feedback='{trainer.args.feedback}'"
        if "answer" in rule.reads and answers is None:
            raise ValueError(
                f"{name} votes by answer and must be told how answers are found and compared: set answer_rule=math "
                "(or gsm8k, mcq, …) in a recipe, or give SIFTrainer answers=AnswerReader('math')"
            )
        if "verdict" in rule.reads and not num_monitors:
            raise ValueError(
                f"{name} trains on a verifier's verdict: name one with monitor=math (or gsm8k, …) and answers in the "
                "data, or give SIFTrainer a reward function"
            )
        sharded = _SHARDED.get(trainer.accelerator.distributed_type)
        for field, why in (
            ("gradient_norm", "a process sees only its part of each gradient"),
            ("teacher_answer", "the teacher's weights would have to be sharded with the policy's"),
        ):
            if sharded and field in rule.reads:
                raise ValueError(f"{name} does not work under {sharded}: {why}; use one process or plain DDP")
        self.teacher = None
        if "teacher_answer" in rule.reads:
            if args.use_vllm:
                raise ValueError(
                    f"{name} generates with its teacher's weights, which vLLM has not; set use_vllm=false"
                )
            self.teacher = Teacher(
                trainer.accelerator.unwrap_model(trainer.model),
                args.teacher_rate,
                args.teacher_rate_end,
                trainer.accelerator.is_main_process,
            )
            trainer.add_callback(self.teacher)

    @property
    def confidence_top_k(self) -> int | None:
        """For the certainty head: how many likely tokens a token's confidence is taken over, or None."""
        return self.trainer.args.confidence_top_k if "step_confidence" in self.reads else None

    def columns(self, scores: TokenScores, rollout: Rollout) -> dict[str, Tensor]:
        """(B,) columns of this process that the rule reads and no other does."""
        trainer, device, columns = self.trainer, scores.certainty.device, {}
        if "step_confidence" in self.reads:
            assert scores.confidence is not None  # the head was asked for it
            mask = rollout.valid_mask(device)
            columns["step_confidence"] = step_confidence(
                scores.confidence, mask, rollout.completion_ids, trainer.processing_class
            )
        if "gradient_norm" in self.reads:
            policy = trainer.accelerator.unwrap_model(trainer.model)
            columns["gradient_norm"] = gradient_norms(policy, rollout, trainer.temperature, device)
        return columns

    def groups(
        self, statistics: ResponseStatistics, texts: Sequence[str], prompts: Sequence[Any], verdicts: Tensor
    ) -> Groups:
        """Arrange the gathered statistics by group, with what else the rule reads.

        `texts` and `prompts` are this process's; `verdicts` (N, number of monitors) are gathered.
        """
        args, accelerator = self.trainer.args, self.trainer.accelerator
        size = self.trainer.num_generations
        excluded = statistics.truncated if args.mask_truncated_completions else None
        usable = usable_responses(statistics.finite, statistics.length, excluded)
        values: dict[str, Tensor] = {
            name: getattr(statistics, name)
            for name in (field.name for field in fields(Groups))
            if hasattr(statistics, name) and name != "profile"
        }
        if "answer" in self.reads:
            together = 2 * size if "paired" in self.reads else size
            others = self._teacher_texts(prompts) if self.teacher else ()
            assert self.answers is not None
            found = answer_classes(texts, self.answers, together, accelerator, others)
            values |= dict(zip(("answer", "teacher_answer"), found, strict=False))
        if "verdict" in self.reads:
            values["verdict"] = verdicts[:, 0].double()
        return Groups(
            profile=statistics.profile.view(-1, size, args.num_windows),
            usable=usable.view(-1, size),
            seed=zlib.crc32(f"{args.seed}/{self.trainer.state.global_step}".encode()),
            paired="paired" in self.reads,
            **{name: value.view(-1, size) for name, value in values.items()},
        )

    def _teacher_texts(self, prompts: Sequence[Any]) -> list[str]:
        """One response of the teacher to each prompt of this process; TRL's log is left as the policy's."""
        trainer = self.trainer
        assert self.teacher is not None
        logged, tokens_seen = copy.deepcopy(trainer._metrics), trainer.state.num_input_tokens_seen
        with self.teacher.in_place_of_policy():
            completions = GRPOTrainer._generate(trainer, list(prompts))[1]
        trainer._metrics, trainer.state.num_input_tokens_seen = logged, tokens_seen
        texts: list[str] = trainer.processing_class.batch_decode(completions, skip_special_tokens=True)
        return texts


def as_text(completion: Any) -> str:
    """A completion's text, its messages joined where it is a chat."""
    return completion if isinstance(completion, str) else " ".join(m["content"] or "" for m in completion)
