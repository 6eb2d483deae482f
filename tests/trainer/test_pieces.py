"""What each token adds to a text: nothing is lost or told twice, whatever the tokenizer does at the edges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.trainer.pieces import token_pieces


def decode_bytes(ids: list[int]) -> str:
    """One token per byte, as byte-level tokenizers fall back to."""
    return bytes(ids).decode("utf-8", errors="replace")


def decode_words(ids: list[int]) -> str:
    """A word per token with its space in front, which is dropped at a text's start."""
    return "".join(f" w{token}" for token in ids).removeprefix(" ")


@given(st.text())
def test_the_pieces_are_the_text(text: str) -> None:
    ids = list(text.encode())
    pieces = token_pieces(decode_bytes, ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text


def test_a_character_of_several_tokens_is_told_by_its_last() -> None:
    assert token_pieces(decode_bytes, list("aé€".encode())) == ["a", "", "é", "", "", "€"]


def test_a_text_cut_within_a_character_shows_that() -> None:
    assert token_pieces(decode_bytes, list("a€".encode())[:-1]) == ["a", "", "�"]


def test_a_space_that_the_tokenizer_drops_in_front_is_kept_within() -> None:
    assert token_pieces(decode_words, [1, 2, 3]) == ["w1", " w2", " w3"]


def test_a_token_that_is_not_shown_adds_nothing() -> None:
    shown = [1, 0, 2, 0]
    assert token_pieces(lambda ids: decode_words([token for token in ids if token]), shown) == ["w1", "", " w2", ""]
