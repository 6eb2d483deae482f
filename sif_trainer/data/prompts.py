"""Prompts for training: ids and messages, nothing else. What is too long is counted and left out, never cut.

load_prompts(PromptSettings(prompts="train.jsonl"), tokenizer).dataset   # columns: id, prompt
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset

from sif_trainer.data.sources import read_rows
from sif_trainer.runs.errors import UserError

PROMPT_COLUMNS = ("prompt", "problem", "question")
REPHRASED = "#rephrased"  # behind the id of a question put in other words


@dataclass
class PromptSettings:
    """Which prompts a run learns from, and how they are put to the model."""

    prompts: str = field(
        metadata={
            "help": "Source of prompts: a JSON-lines file (.gz too), hub:NAME[@REVISION], reasoning_gym:NAME, "
            "benchmark:NAME, or cipher."
        }
    )
    prompt_column: str | None = field(
        default=None,
        metadata={"help": "Column of the prompt: text, or messages; prompt, problem or question if left out."},
    )
    rephrased_column: str | None = field(
        default=None,
        metadata={"help": "Column of the same question in other words, for feedback=co_rewarding; none if left out."},
    )
    prompt_split: str = field(default="train", metadata={"help": "Split of a hub data set or of the embedded world."})
    data_dir: str | None = field(
        default=None, metadata={"help": "Folder of benchmark files, for benchmark:NAME; the hub if left out."}
    )
    num_prompts: int | None = field(default=None, metadata={"help": "Use the first rows only; all if left out."})
    max_prompt_length: int = field(
        default=512,
        metadata={"help": "Prompts of more tokens are left out and counted, never truncated (paper: 512)."},
    )
    system_prompt: str | None = field(default=None, metadata={"help": "Text of the system message, if any."})
    prompt_suffix: str = field(default="", metadata={"help": "Text put behind every prompt, such as how to answer."})
    chat: bool | None = field(
        default=None,
        metadata={"help": "Put prompts as chat messages; if left out, wherever the tokenizer has a chat template."},
    )


@dataclass(frozen=True)
class PromptSet:
    """Prompts that fit, with what was left out and one of them as the model will read it."""

    dataset: Dataset
    num_read: int
    num_too_long: int
    max_length: int
    rendered: str
    lengths: tuple[int, ...]  # tokens of each that was read, those that are too long included

    def explain(self) -> str:
        """Return the counts in a line."""
        return (
            f"{self.num_read:,} prompts read, {self.num_too_long:,} left out as too long, {len(self.dataset):,} used; "
            f"the longest has {self.max_length} tokens"
        )


def load_prompts(settings: PromptSettings, tokenizer: Any, seed: int = 0, **template_kwargs: Any) -> PromptSet:
    """Read, put into messages, render once to count tokens, and filter by length.

    Args:
        settings: where from and how.
        tokenizer: the policy's; its chat template is used as `template_kwargs` say.
        seed: of procedural sources.

    Raises:
        UserError: a row without a prompt, no rows, a chat without a template, or no prompt short enough.
    """
    rows = read_rows(settings.prompts, settings.prompt_split, settings.num_prompts, seed, settings.data_dir)
    chat = tokenizer.chat_template is not None if settings.chat is None else settings.chat
    if chat and tokenizer.chat_template is None:
        raise UserError("chat=true, but the tokenizer has no chat template; set chat=false, or use an instruct model")
    columns = [_prompt_column(settings, rows[0])]
    if settings.rephrased_column:
        columns.append(settings.rephrased_column)
    # With a rephrasing each row gives two prompts, one behind the other; they fit or are left out together.
    ids = [str(row["id"]) + suffix for row in rows for suffix in ("", REPHRASED)[: len(columns)]]
    prompts = [_as_prompt(row, c, number, chat, settings) for number, row in enumerate(rows, 1) for c in columns]
    texts = [_render(prompt, tokenizer, template_kwargs) for prompt in prompts]
    lengths = [len(ids) for ids in tokenizer(texts, add_special_tokens=not chat)["input_ids"]]
    longest = [max(lengths[i - i % len(columns) :][: len(columns)]) for i in range(len(lengths))]
    fitting = [i for i, length in enumerate(longest) if length <= settings.max_prompt_length]
    if not fitting:
        raise UserError(
            f"{settings.prompts}: all {len(rows)} prompts have more than "
            f"max_prompt_length={settings.max_prompt_length} tokens (the shortest has {min(lengths)}); raise the limit"
        )
    return PromptSet(
        dataset=Dataset.from_list([{"id": ids[i], "prompt": prompts[i]} for i in fitting]),
        num_read=len(prompts),
        num_too_long=len(prompts) - len(fitting),
        max_length=max(lengths[i] for i in fitting),
        rendered=texts[fitting[0]],
        lengths=tuple(lengths),
    )


def _prompt_column(settings: PromptSettings, row: dict[str, Any]) -> str:
    wanted = (settings.prompt_column,) if settings.prompt_column else PROMPT_COLUMNS
    for name in wanted:
        if name in row:
            return name
    raise UserError(
        f"{settings.prompts}, row 1: no column {' or '.join(wanted)}; it has: {', '.join(row)}; "
        "name the right one with prompt_column=NAME"
    )


def _as_prompt(row: dict[str, Any], column: str, number: int, chat: bool, settings: PromptSettings) -> Any:
    value = row.get(column)
    if isinstance(value, list) and value and all(isinstance(m, dict) and {"role", "content"} <= set(m) for m in value):
        if not chat:
            raise UserError(
                f"{settings.prompts}, row {number}: the prompt is a chat, but chat is off or has no template"
            )
        return value
    if not isinstance(value, str) or not value:
        raise UserError(
            f"{settings.prompts}, row {number}: '{column}' must be a text or a list of messages, not {value!r}"
        )
    text = value + settings.prompt_suffix
    if not chat:
        return (settings.system_prompt or "") + text
    system = [{"role": "system", "content": settings.system_prompt}] if settings.system_prompt else []
    return [*system, {"role": "user", "content": text}]


def _render(prompt: Any, tokenizer: Any, template_kwargs: dict[str, Any]) -> str:
    if isinstance(prompt, str):
        return prompt
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True, **template_kwargs)
