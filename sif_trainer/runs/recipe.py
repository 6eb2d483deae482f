"""A recipe is a whole experiment: a flat YAML file, found by path or by name, plus `key=value` from the command line.

    sif train smoke/quickstart learning_rate=1e-5 seed=3

Keys and types are those of the dataclasses that the command names. A recipe's `scripted:FILE` is found beside it, so
that a recipe and its script work from any folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.flat_yaml import parse, parse_mapping
from sif_trainer.runs.schema import Field, accepts, check, fields_of

_PACKAGE = Path(__file__).parents[1]
_ROOTS = (_PACKAGE / "recipes", _PACKAGE.parent / "recipes")  # in an installed wheel; in a checkout
_COMMAND_LINE = "command line"


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with the package, such as `smoke/quickstart`."""
    return sorted(
        {path.relative_to(root).with_suffix("").as_posix() for root in _ROOTS for path in root.rglob("*.yaml")}
    )


def find_recipe(name_or_path: str) -> Path:
    """Return the file of a recipe, given by path or by name, with or without `.yaml`.

    Raises:
        UserError: naming similar recipes, when there is no such file.
    """
    file_name = f"{name_or_path.removesuffix('.yaml')}.yaml"
    candidates = [Path(name_or_path), Path(file_name), *(root / file_name for root in _ROOTS)]
    for path in candidates:
        if path.is_file():
            return path
    names, wanted = recipe_names(), name_or_path.removesuffix(".yaml")
    same_end = [name for name in names if Path(name).name == Path(wanted).name]
    hint = f"; did you mean '{same_end[0]}'?" if same_end else nearest(wanted, names)
    known = hint or f"; known recipes: {', '.join(names)}"
    raise UserError(f"no recipe '{name_or_path}': neither a file nor the name of a recipe{known}")


def short_name(name_or_path: str) -> str:
    """Return what a run of the recipe is called: its path without `recipes/` and `.yaml`."""
    return name_or_path.removeprefix("recipes/").removesuffix(".yaml")


def load_recipe(name_or_path: str, overrides: Iterable[str], *schemas: type) -> dict[str, Any]:
    """Read a recipe, let `key=value` texts replace its values, and check keys and types against dataclasses.

    Args:
        name_or_path: as for `find_recipe`.
        overrides: `key=value`; the value is YAML; of two with one key the later wins.
        schemas: the dataclasses whose fields the recipe may set; `schema.build` makes each from the result.

    Returns:
        The values that recipe and overrides set, converted to their fields' types. Defaults are not in it.

    Raises:
        UserError: no such recipe, not readable, not YAML (with the line), an unknown key (with the nearest), a wrong
            type (with the field's help).
    """
    path = find_recipe(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text: {error}") from error
    values = check(parse_mapping(text, str(path)), fields_of(*schemas), str(path))
    found = {key: _with_script(value, path.parent) for key, value in values.items()}
    return found | parse_overrides(overrides, *schemas)


def _with_script(value: Any, folder: Path) -> Any:
    """Return `scripted:FILE` with the file's whole path where it stands in the folder, any other value as it is."""
    if isinstance(value, str) and value.startswith("scripted:"):
        file = folder / value.removeprefix("scripted:")
        return f"scripted:{file}" if file.is_file() else value
    return value


def parse_overrides(overrides: Iterable[str], *schemas: type) -> dict[str, Any]:
    """Read `key=value` texts and check them against dataclasses; errors as in `load_recipe`."""
    fields = fields_of(*schemas)
    values: dict[str, Any] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise UserError(f"{_COMMAND_LINE}: expected key=value, found '{override}'")
        values |= check({key: _override_value(key, text, fields)}, fields, _COMMAND_LINE)
    return values


def _override_value(key: str, text: str, fields: Mapping[str, Field]) -> Any:
    """Read the text as YAML, or take it as it stands where only that suits the field (`name=3`, `prompt=Q: why`)."""
    annotation = fields[key].annotation if key in fields else Any
    try:
        value = parse(text, f"{_COMMAND_LINE}, {key}")
    except UserError:
        if not accepts(text, annotation):
            raise
        return text
    text_wanted = value is not None and not accepts(value, annotation) and accepts(text, annotation)
    return text if text_wanted else value


def differences(values: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys in which two mappings differ, in order: `{key: {"here": ..., "reference": ...}}`.

    A side that does not have the key is left out of the inner mapping.
    """
    sides = {"here": values, "reference": reference}
    found = {}
    for key in dict.fromkeys([*values, *reference]):
        both = {side: mapping[key] for side, mapping in sides.items() if key in mapping}
        if len(both) == 1 or both["here"] != both["reference"]:
            found[key] = both
    return found
