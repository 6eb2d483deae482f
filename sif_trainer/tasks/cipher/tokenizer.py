"""A tokenizer with one token per character of the cipher world.

    python -m sif_trainer.tasks.cipher.warm_start --out FOLDER

builds it and saves it beside the policy. It adds no token by itself, neither at the start nor at the end.
"""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sif_trainer.tasks.cipher.world import CHARACTERS

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; it pads on the left unless told otherwise, as generation wants."""
    vocabulary = {token: number for number, token in enumerate([PAD, EOS, UNKNOWN, *CHARACTERS])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    characters.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=characters,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
