"""Held-out accuracy of a live model, for validation during training; `sif train` calls it at each checkpoint.

    measure = online_measure(tokenizer, load_benchmark("math500", limit=100), max_tokens=1024)
    measure(model)      # {"accuracy": 0.41, "accuracy_low": 0.32, "accuracy_high": 0.51, "greedy": 0.41, ...}

One greedy response per problem, as the paper validates. With `num_samples` the accuracy is avg@n instead, which needs
fewer problems for the same interval. No global random state is read or changed, and the model's mode is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sif_trainer.evaluation.estimate import mean_over_problems
from sif_trainer.evaluation.processes import Processes
from sif_trainer.policy import Policy, Prompt, Sample, Sampling
from sif_trainer.runs.errors import UserError
from sif_trainer.tasks.grade import grade_many
from sif_trainer.tasks.load import Problem
from sif_trainer.tasks.verdict import Grade, Item

Question: TypeAlias = Problem | tuple[str, Prompt, str, str]
"""A benchmark's problem, or (id, prompt, reference answer, rule) with the prompt in the form that training uses."""


def online_measure(
    tokenizer: Any,
    problems: Iterable[Question],
    *,
    max_tokens: int,
    num_samples: int = 0,
    temperature: float = 0.6,
    seed: int = 123,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    batch_size: int = 32,
    share: bool = False,
) -> Callable[[Any], dict[str, float]]:
    """Return a function from a live model to its accuracy on `problems`, with a 95 % interval clustered by problem.

    Args:
        tokenizer: the policy's.
        problems: with their reference answers.
        max_tokens: of a response.
        num_samples: n of avg@n, drawn at `temperature` with `seed`; 0 for the greedy response alone.
        chat_template_kwargs: as in training.
        batch_size: responses decoded at once.
        share: let each process of a distributed run measure its part, and all have the whole result. Only where every
            process holds the whole model: a sharded one (ZeRO-3, FSDP) needs the same forwards everywhere.

    The function returns `accuracy`, `accuracy_low`, `accuracy_high`, `greedy` (accuracy of the greedy responses), and,
    of the responses behind `accuracy`, `truncated_rate`, `unparsable_rate` and the mean `length` in tokens.

    Raises:
        UserError: no problems; from the function, a prompt that does not fit the model's context.
    """
    questions = [_question(problem) for problem in problems]
    if not questions:
        raise UserError("validation has no problems; give at least one, or leave validation out")
    greedy = Sampling(temperature=0, max_tokens=max_tokens)
    drawn = Sampling(temperature, max_tokens=max_tokens, seed=seed)

    def measure(model: Any) -> dict[str, float]:
        from sif_trainer.policy.transformers_engine import TransformersPolicy

        policy = TransformersPolicy(model, tokenizer, batch_size=batch_size, chat_template_kwargs=chat_template_kwargs)
        processes = Processes.current() if share else Processes()
        own = processes.share(questions)
        first = processes.gather(_answer(policy, own, 1, greedy))
        rows = processes.gather(_answer(policy, own, num_samples, drawn)) if num_samples else first
        accuracy = mean_over_problems([_mean([grade.score for _, grade in row]) for row in rows], max(1, num_samples))
        every = [answer for row in rows for answer in row]
        return {
            "accuracy": accuracy.value,
            "accuracy_low": accuracy.low,
            "accuracy_high": accuracy.high,
            "greedy": _mean([grade.score for ((_, grade),) in first]),
            "truncated_rate": _mean([sample.finish_reason == "length" for sample, _ in every]),
            "unparsable_rate": _mean([grade.verdict == "unparsable" for _, grade in every]),
            "length": _mean([sample.num_tokens for sample, _ in every]),
        }

    return measure


def _question(problem: Question) -> tuple[Prompt, Callable[[str], Item]]:
    """Return the prompt, and the way from a response to what is graded."""
    if isinstance(problem, Problem):
        return problem.messages, lambda text: Item(text, problem.gold, problem.rule, fields=problem.fields)
    _, prompt, gold, rule = problem
    return prompt, lambda text: Item(text, gold, rule)


def _answer(
    policy: Policy, questions: Sequence[tuple[Prompt, Callable[[str], Item]]], n: int, sampling: Sampling
) -> list[list[tuple[Sample, Grade]]]:
    """Return n graded samples for each question."""
    samples = policy.generate([prompt for prompt, _ in questions], n, sampling)
    items = [item(sample.text) for (_, item), row in zip(questions, samples, strict=True) for sample in row]
    grades = iter(grade_many(items))
    return [[(sample, next(grades)) for sample in row] for row in samples]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
