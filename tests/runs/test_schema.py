"""Values against dataclasses: types understood, types not understood, and messages that help."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from trl import GRPOConfig

from sif_trainer.runs.errors import UserError
from sif_trainer.runs.schema import accepts, build, check, conform, describe, fields_of


@dataclass
class Optimiser:
    learning_rate: float = field(default=3e-6, metadata={"help": "Peak learning rate, per\n    update."})
    num_steps: int = 10
    loss: Literal["kept", "all"] = "kept"
    resume: bool = False
    name: str | None = None
    exotic: NoSuchType | None = None  # noqa: F821
    made_later: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise ValueError(f"num_steps={self.num_steps} must be at least 1")


@dataclass
class Data:
    prompts: str
    learning_rate: int = 0


@pytest.mark.parametrize(
    ("value", "annotation", "result"),
    [
        (1, float, 1.0),
        (1.5, float, 1.5),
        (3, int, 3),
        (True, bool, True),
        ("a", str, "a"),
        (None, int | None, None),
        (3, float | None, 3.0),
        (3, float | int, 3),
        (3, int | float, 3),
        ("a", float | str, "a"),
        ("all", Literal["kept", "all"], "all"),
        ([1, 2], list[float], [1.0, 2.0]),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ([1, "a"], tuple[float, str], (1.0, "a")),
        ([1, "a"], list, [1, "a"]),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": 1}, dict, {"a": 1}),
        ("x/y", Path, Path("x/y")),
        (object, Any, object),
        ("anything", type("Unknown", (), {}), "anything"),
    ],
)
def test_a_fitting_value_is_taken(value: Any, annotation: Any, result: Any) -> None:
    taken = conform(value, annotation)
    assert taken == result
    assert type(taken) is type(result)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("1", float),
        (True, float),
        (True, int),
        (1.0, int),
        (1, bool),
        ("yes", bool),
        (1, str),
        (None, int),
        (1, Literal[True]),
        ("al", Literal["kept", "all"]),
        ([1, "a"], list[float]),
        ([1.0], tuple[float, float]),
        ("ab", list[str]),
        ({"a": "b"}, dict[str, float]),
        ([1], dict),
        ("a", int | None),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, annotation: Any) -> None:
    assert not accepts(value, annotation)


def test_a_type_is_told_in_words() -> None:
    assert describe(Literal["kept", "all"]) == "'kept' or 'all'"
    assert describe(float | None) == "a number or null"
    assert describe(list[str]) == "a list, each item a text"
    assert describe(tuple[int, ...]) == "a list, each item a whole number"
    assert describe(tuple[int, int, int]) == "a list of 3, each item a whole number"


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^r.yaml: unknown key 'learning_rat'; did you mean 'learning_rate'\?$"):
        check({"learning_rat": 1.0}, fields_of(Optimiser, Data), "r.yaml")


def test_a_field_that_the_class_makes_itself_is_no_key() -> None:
    with pytest.raises(UserError, match="unknown key 'made_later'"):
        check({"made_later": 1}, fields_of(Optimiser), "r.yaml")


def test_a_wrong_type_names_type_value_and_help() -> None:
    with pytest.raises(UserError) as error:
        check({"learning_rate": "fast"}, fields_of(Optimiser), "r.yaml")
    expected = "r.yaml: learning_rate must be a number, not 'fast' (learning_rate: Peak learning rate, per update.)"
    assert str(error.value) == expected


def test_the_first_schema_with_a_name_decides_its_type() -> None:
    assert check({"learning_rate": 1.5}, fields_of(Optimiser, Data), "r.yaml") == {"learning_rate": 1.5}
    with pytest.raises(UserError, match="learning_rate must be a whole number"):
        check({"learning_rate": 1.5}, fields_of(Data, Optimiser), "r.yaml")


def test_an_annotation_that_is_not_understood_takes_any_value() -> None:
    assert check({"exotic": [1, {"a": 2}]}, fields_of(Optimiser), "r.yaml") == {"exotic": [1, {"a": 2}]}


def test_each_schema_is_built_from_its_own_keys() -> None:
    values = {"prompts": "p.jsonl", "num_steps": 3}
    assert build(Optimiser, values).num_steps == 3
    assert build(Data, values).prompts == "p.jsonl"


def test_what_the_class_refuses_or_misses_is_the_users_error() -> None:
    with pytest.raises(UserError, match="num_steps=0 must be at least 1"):
        build(Optimiser, {"num_steps": 0})
    with pytest.raises(UserError, match="no value for prompts; set it in the recipe or as prompts="):
        build(Data, {})


def test_trls_own_fields_are_checked() -> None:
    fields = fields_of(GRPOConfig)
    good = {"learning_rate": 1, "num_generations": 8, "lr_scheduler_type": "cosine", "report_to": "none", "bf16": None}
    assert check(good, fields, "r.yaml") == good
    for bad in ({"num_generations": 2.5}, {"learning_rate": "fast"}, {"disable_dropout": "on"}):
        with pytest.raises(UserError, match=f"r.yaml: {next(iter(bad))} must be"):
            check(bad, fields, "r.yaml")


def test_every_default_of_trl_fits_its_own_field() -> None:
    fields = fields_of(GRPOConfig)
    config = GRPOConfig.__dataclass_fields__
    simple = (bool, int, float, str, type(None), list, dict)
    for name, form in fields.items():
        if isinstance(config[name].default, simple):
            assert accepts(config[name].default, form.annotation), f"{name}: {form.annotation}"
