"""From prompts to token ids: the chat template, its arguments, and the stated fallback where there is none.

Used by every engine that has a tokenizer. `PromptEncoder(tokenizer).render(messages)` shows what the model will read.

- Raw text is sent as it is, with the tokenizer's own special tokens (usually a begin-of-text token).
- Chat messages go through the chat template with `chat_template_kwargs` (for example `{"enable_thinking": False}`),
and
  are tokenised without further special tokens, since the template has written its own.
- A tokenizer without a chat template gets the messages' contents, joined by blank lines, as raw text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sif_trainer.policy.policy import Message, Prompt, check_labels
from sif_trainer.runs.errors import UserError


def join_contents(messages: Sequence[Message]) -> str:
    """Return the contents joined by blank lines: what a model without a chat template reads."""
    return "\n\n".join(message["content"] for message in messages)


class PromptEncoder:
    """A tokenizer with its chat settings. `chat_template` replaces the tokenizer's own (jinja text)."""

    def __init__(
        self,
        tokenizer: Any,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.chat_template = chat_template or getattr(tokenizer, "chat_template", None)
        self.chat_template_kwargs = dict(chat_template_kwargs or {})

    def render(self, prompt: Prompt) -> str:
        """Return the text that is tokenised. Raises `UserError` where the template refuses the messages."""
        if isinstance(prompt, str):
            return prompt
        if not self.chat_template:
            return join_contents(prompt)
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(
                list(prompt),
                chat_template=self.chat_template,
                tokenize=False,
                add_generation_prompt=True,
                **self.chat_template_kwargs,
            )
        except TemplateError as error:
            raise UserError(f"the chat template refused the messages {str(list(prompt))[:200]}: {error}") from error
        return text

    def encode(self, prompt: Prompt) -> list[int]:
        """Return the prompt's token ids. Raises `UserError` for a prompt without any token."""
        templated = not isinstance(prompt, str) and bool(self.chat_template)
        ids: list[int] = self.tokenizer.encode(self.render(prompt), add_special_tokens=not templated)
        if not ids:
            raise UserError(
                f"the prompt {prompt!r} has no token in this model's vocabulary; a model needs at least one"
            )
        return ids

    def encode_all(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the token ids of each prompt; one that is there several times, for its samples, is encoded once."""
        known: dict[str, list[int]] = {}
        keys = [repr(prompt) for prompt in prompts]
        for key, prompt in zip(keys, prompts, strict=True):
            if key not in known:
                known[key] = self.encode(prompt)
        return [known[key] for key in keys]

    def label_tokens(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        """Return each label's ids, tokenised on its own without special tokens; see `Policy.label_tokens`."""
        tokens = [tuple(self.tokenizer.encode(label, add_special_tokens=False)) for label in labels]
        check_labels(labels, tokens)
        return tokens

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a completion, without special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
