"""Plain values against a dataclass: does every key exist, and does every value have its field's type?

A field is declared once, in the dataclass that reads it, with its help in `field(metadata={"help": ...})`; TRL's own
configuration classes are checked the same way. Where an annotation is not understood (some of theirs), any value
passes, and the class itself has the last word.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from sif_trainer.runs.errors import UserError, nearest

T = TypeVar("T")
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "null"}
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
_MAPPINGS = (dict, collections.abc.Mapping)


class Mismatch(Exception):
    """A value that its annotation does not take."""


@dataclasses.dataclass(frozen=True)
class Field:
    """One key that a recipe may set: its type (`Any` when not understood), its help, whether it must be set."""

    annotation: Any
    help: str
    required: bool


def fields_of(*schemas: type) -> dict[str, Field]:
    """Return the fields that the schemas' constructors take, by name; the first schema that has a name wins."""
    found: dict[str, Field] = {}
    for schema in schemas:
        for field in dataclasses.fields(schema):
            if field.init:
                help_text = " ".join(str(field.metadata.get("help", "")).split())
                required = field.default is field.default_factory is dataclasses.MISSING
                found.setdefault(field.name, Field(_annotation(schema, field), help_text, required))
    return found


def _annotation(schema: type, field: dataclasses.Field[Any]) -> Any:
    """Return the field's type, a text annotation being read in the module of the class that declares it."""
    if not isinstance(field.type, str):
        return field.type
    owner = next(cls for cls in schema.__mro__ if field.name in inspect.get_annotations(cls))
    try:
        return eval(field.type, vars(sys.modules[owner.__module__]), dict(vars(owner)))
    except Exception:  # whatever another library's annotation raises: the type is not understood
        return Any


def conform(value: Any, annotation: Any) -> Any:
    """Return `value` as `annotation` wants it: an int becomes a float, a list a tuple, a text a Path.

    Raises:
        Mismatch: when the annotation is understood and does not take the value.
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _conform_to_any(value, args)
    if origin is Literal:
        return _require(value, any(value == arg and type(value) is type(arg) for arg in args))
    if (kind := origin or annotation) in _LISTS:
        return _conform_list(value, kind, args)
    if kind in _MAPPINGS:
        _require(value, isinstance(value, Mapping))
        key_type, value_type = args or (Any, Any)
        return {conform(key, key_type): conform(item, value_type) for key, item in value.items()}
    if annotation is float:
        _require(value, isinstance(value, int | float) and not isinstance(value, bool))
        return float(value)
    if annotation is Path:
        return Path(_require(value, isinstance(value, str | Path)))
    if annotation in _NAMES:
        return _require(value, type(value) is annotation)
    return value


def accepts(value: Any, annotation: Any) -> bool:
    """Say whether `conform` takes the value."""
    try:
        conform(value, annotation)
    except Mismatch:
        return False
    return True


def _require(value: Any, condition: bool) -> Any:
    if not condition:
        raise Mismatch
    return value


def _conform_to_any(value: Any, annotations: tuple[Any, ...]) -> Any:
    """Prefer the member that takes the value as it is: 3 stays whole in `float | int`, but not in `float | str`."""
    results = [conform(value, annotation) for annotation in annotations if accepts(value, annotation)]
    _require(value, bool(results))
    return next((result for result in results if type(result) is type(value)), results[0])


def _conform_list(value: Any, kind: Any, args: tuple[Any, ...]) -> Any:
    _require(value, isinstance(value, list | tuple))
    wanted = args if _has_fixed_length(kind, args) else [args[0] if args else Any] * len(value)
    _require(value, len(wanted) == len(value))
    items = [conform(item, annotation) for item, annotation in zip(value, wanted, strict=True)]
    return tuple(items) if kind is tuple else items


def _has_fixed_length(kind: Any, args: tuple[Any, ...]) -> bool:
    """Whether it is one item for each annotation, as in tuple[float, float], against list[float]."""
    return kind is tuple and bool(args) and Ellipsis not in args


def describe(annotation: Any) -> str:
    """Say in words what a field takes: `a number`, `'kept' or 'all'`, `a list, each item a text`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe(arg) for arg in args))
    if origin is Literal:
        return " or ".join(repr(arg) for arg in args)
    if (kind := origin or annotation) in _LISTS:
        number = f" of {len(args)}" if _has_fixed_length(kind, args) else ""
        items = " or ".join(dict.fromkeys(describe(arg) for arg in args if arg is not Ellipsis))
        return f"a list{number}, each item {items}" if args else "a list"
    if kind in _MAPPINGS:
        return "a mapping"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def check(values: Mapping[str, Any], fields: Mapping[str, Field], where: str) -> dict[str, Any]:
    """Return `values` converted to the types of `fields`.

    Raises:
        UserError: for a key that no field has, with the nearest, or a value of the wrong type, with the field's help.
    """
    checked = {}
    for key, value in values.items():
        if key not in fields:
            raise UserError(f"{where}: unknown key '{key}'{nearest(key, fields)}")
        field = fields[key]
        try:
            checked[key] = conform(value, field.annotation)
        except Mismatch:
            help_text = f" ({key}: {textwrap.shorten(field.help, 240)})" if field.help else ""
            raise UserError(
                f"{where}: {key} must be {describe(field.annotation)}, not {value!r:.80}{help_text}"
            ) from None
    return checked


def build(schema: type[T], values: Mapping[str, Any]) -> T:
    """Make the dataclass from those of `values` that are its fields; the rest belongs to other schemas.

    Raises:
        UserError: with the class's own reason, when it refuses the values or lacks one.
    """
    fields = fields_of(schema)
    mine = {key: value for key, value in values.items() if key in fields}
    missing = [key for key, field in fields.items() if field.required and key not in mine]
    if missing:
        raise UserError(f"no value for {', '.join(missing)}; set it in the recipe or as {missing[0]}=...")
    try:
        return schema(**mine)
    except ValueError as error:
        raise UserError(str(error)) from error
