"""Draw G responses to each prompt, score them in one pass, and record each group as it is finished.

    draw_groups(policy, prompts, config, readers, folder.records("groups"))

Tokens are drawn by `Policy.stream`, which a killed run continues without repeating a recorded group, and scored by the
trainer's own pass (`trainer.scoring`), so that a vote sees what it would see in training. Answers enter as a grader's
0 or 1 beside the numbers, and nothing here acts on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import is_peft_model
from torch import Tensor

from sif_trainer.certainty.head import TokenScores, add_certainty_head
from sif_trainer.policy import Prompt, Sample, Sampling
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.probe.record import STATISTICS, ranked_pieces
from sif_trainer.runs.progress import Progress
from sif_trainer.runs.records import Records
from sif_trainer.trainer.answers import AnswerReader
from sif_trainer.trainer.config import SIFConfig
from sif_trainer.trainer.gradient_norm import gradient_norms
from sif_trainer.trainer.scoring import ResponseStatistics, Rollout, response_statistics, score_rollout
from sif_trainer.trainer.steps import step_confidence

Grader = Callable[..., list[float | None]]
"""`grader(prompts=..., completions=..., id=...)`: 1, 0 or None per completion, as `tasks.monitor` makes it."""


@dataclass(frozen=True)
class Readers:
    """What is read in texts: `answers` finds and compares the group's own answers, `grade` knows the references."""

    answers: AnswerReader | None = None
    grade: Grader | None = None


def draw_groups(
    policy: TransformersPolicy,
    prompts: Sequence[Mapping[str, Any]],
    config: SIFConfig,
    readers: Readers,
    records: Records,
) -> None:
    """Sample, score and record the groups of `prompts` (`id` and `prompt`) that are not recorded."""
    reads = config.find_rule().reads
    top_k = config.confidence_top_k if readers.answers or "step_confidence" in reads else None
    model = policy.model.eval()  # an adapter that is trained further comes in training mode
    base = model.get_base_model() if is_peft_model(model) else model
    add_certainty_head(base, config.temperature, config.cast_lm_head_to_fp32, top_k)
    assert config.max_completion_length is not None  # recipe.refuse_other_sampling
    sampling = Sampling(
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        max_tokens=config.max_completion_length,
        seed=config.seed,
    )
    n, done = config.num_generations, {record["id"] for record in records}
    skip = {(place, i) for place, row in enumerate(prompts) if row["id"] in done for i in range(n)}
    waiting: dict[int, dict[int, Sample]] = defaultdict(dict)
    with Progress("probe", len(prompts), "group", done=len(skip) // n) as progress:
        texts: list[Prompt] = [row["prompt"] for row in prompts]
        for place, number, sample in policy.stream(texts, n, sampling, skip=skip):
            waiting[place][number] = sample
            if len(waiting[place]) == n:
                samples = [waiting[place][i] for i in range(n)]
                del waiting[place]
                records.append(_record(policy, prompts[place], samples, config, readers))
                progress.update()


def _record(
    policy: TransformersPolicy, row: Mapping[str, Any], samples: list[Sample], config: SIFConfig, readers: Readers
) -> dict[str, Any]:
    """Score a finished group and return its record."""
    model, tokenizer = policy.model, policy.encoder.tokenizer
    prompt_ids = policy.encoder.encode(row["prompt"])
    rollout = Rollout([prompt_ids] * len(samples), [list(sample.token_ids or ()) for sample in samples], None)
    texts = [sample.text for sample in samples]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    batch_size = config.per_device_train_batch_size or len(samples)
    scores = score_rollout(model, rollout, pad, batch_size, model.device)
    mask = rollout.valid_mask(model.device)
    columns: dict[str, Tensor] = {}
    if scores.confidence is not None:
        columns["step_confidence"] = step_confidence(scores.confidence, mask, rollout.completion_ids, tokenizer)
    if "gradient_norm" in config.find_rule().reads:
        columns["gradient_norm"] = gradient_norms(model, rollout, config.temperature, model.device)
    truncated = [sample.finish_reason == "length" for sample in samples]
    found = ResponseStatistics.from_rows(
        response_statistics(scores, rollout, truncated, texts, config, **columns).cpu()
    )
    responses = _responses(found, scores, mask)
    for response, text in zip(responses, texts, strict=True):
        response["completion"] = text
    if readers.answers is not None:
        (classes,) = readers.answers.classes([[readers.answers.extract(text) for text in texts]])
        for response, answer in zip(responses, classes, strict=True):
            response["answer"] = answer
    if readers.grade is not None:
        grades = readers.grade(prompts=[row["prompt"]] * len(texts), completions=texts, id=[row["id"]] * len(texts))
        for response, correct in zip(responses, grades, strict=True):
            response["correct"] = correct
    return {"id": row["id"], "prompt": row["prompt"], "responses": responses}


def _responses(found: ResponseStatistics, scores: TokenScores, mask: Tensor) -> list[dict[str, Any]]:
    """A mapping of plain values per response."""
    values = {name: getattr(found, name).tolist() for name in STATISTICS}
    certainty = scores.certainty.double().cpu()
    mask = mask.cpu()
    return [
        {
            **{name: column[i] for name, column in values.items()},
            "profile": found.profile[i].tolist(),
            "ranked": ranked_pieces(certainty[i][mask[i]].numpy()),
        }
        for i in range(len(certainty))
    ]


def pick(dataset: Any, num_prompts: int, seed: int) -> list[dict[str, Any]]:
    """Draw that many rows, or all if there are fewer, at random: files are often sorted by subject or difficulty."""
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    return [dataset[i] for i in sorted(order[:num_prompts])]
