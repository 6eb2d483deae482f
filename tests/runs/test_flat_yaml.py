"""YAML as recipes use it: numbers as people mean them, no repeated keys, and what is written is read back."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.flat_yaml import dump, parse, parse_mapping

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("3e-6", 3e-6),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", -math.inf),
        ("7", 7),
        ("+7", 7),
        ("012", 12),
        ("true", True),
        ("False", False),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("null", None),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("'1e-5'", "1e-5"),
        ("[1, 2.0, a, null]", [1, 2.0, "a", None]),
    ],
)
def test_a_value_is_what_it_looks_like(text: str, value: Any) -> None:
    read = parse(text, "here")
    assert read == value
    assert type(read) is type(value)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    text = dump(values)
    assert parse_mapping(text, "here") == values


@given(st.text())
def test_a_written_text_is_a_text_for_other_readers_too(text: str) -> None:
    assert yaml.safe_load(dump({"key": text})) == {"key": text}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3", "recipe.yaml, line 3: not valid YAML: the key 'a' is given twice"),
        ("a: {b: 1, b: 2}", "the key 'b' is given twice"),
        ("a: 1\nb: [1, 2", "recipe.yaml, line 2"),
        ("a: 1\nb: c: d", "recipe.yaml, line 2"),
        ("a: \x00", "recipe.yaml: not valid YAML"),
        ("a: !!python/name:os.system x", "recipe.yaml, line 1"),
        ("- 1", "recipe.yaml: expected lines of the form 'key: value', found [1]"),
        ("3: 1", "recipe.yaml: the key 3 is not a name"),
    ],
)
def test_what_is_no_recipe_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        parse_mapping(text, "recipe.yaml")
    assert complaint in str(error.value)


def test_an_empty_text_is_an_empty_recipe() -> None:
    assert parse_mapping("# only a comment\n", "here") == {}
