"""The text that each token of a completion adds, for the samples that a run keeps; the report shades it by certainty.

token_pieces(tokenizer.decode, [464, 3280, 318])     # ["The", " answer", " is"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def token_pieces(decode: Callable[[list[int]], str], ids: Sequence[int]) -> list[str]:
    """Return one text per token, whose concatenation is the decoded whole.

    Tokens are decoded behind the one before them, because many tokenizers drop the space in front of a text's first.
    A token that is not shown, or that ends within a character, gets an empty text; the token that completes the
    character gets all of it.
    """
    pieces: list[str] = []
    before, done = 0, 0  # tokens from `before` to `done` are context, those from `done` on are not yet told
    for end in range(1, len(ids) + 1):
        context, text = decode(list(ids[before:done])), decode(list(ids[before:end]))
        unfinished = text.endswith(_UNFINISHED) and end < len(ids)
        pieces.append("" if unfinished else text[len(context) :])
        if pieces[-1]:
            before, done = done, end
    return pieces
