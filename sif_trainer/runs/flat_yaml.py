"""YAML as recipes use it: one flat mapping, with the numbers and booleans that people mean.

PyYAML speaks YAML 1.1, where `1e-5` is a text, `on` a boolean, `012` an octal and `1:30` ninety. Recipes follow YAML
1.2 instead: `1e-5` is a number, only `true` and `false` are booleans, and dates stay text. A repeated key is an error.
What `dump` writes, `parse` reads back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from sif_trainer.runs.errors import UserError

_SCALARS = {  # tag: (pattern, the characters that it can start with); tried in this order
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own class attribute)


class _Dumper(yaml.SafeDumper):
    """Keeps PyYAML's own rules beside ours, and so quotes every text that a reader of either version would mistake."""


for _tag, (_pattern, _first) in _SCALARS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def _mapping_without_repeats(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise yaml.MarkedYAMLError(problem=f"the key '{key.value}' is given twice", problem_mark=key.start_mark)
        seen.add(str(key.value))
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping_without_repeats)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Texts of several lines in double quotes: the other styles lose the kind of line break."""
    style = '"' if text.splitlines() != [text] else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def parse(text: str, where: str) -> Any:
    """Read one YAML value.

    Raises:
        UserError: naming `where`, the line and the reason, when the text is no YAML or repeats a key.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{where}{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits, a wrong explicit tag
        raise UserError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from error


def parse_mapping(text: str, where: str) -> dict[str, Any]:
    """Read a YAML mapping whose keys are names; an empty text is an empty mapping.

    Raises:
        UserError: as `parse`, and for anything but a mapping.
    """
    value = parse(text, where)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected lines of the form 'key: value', found {value!r:.60}")
    for key in value:
        if not isinstance(key, str):
            raise UserError(f"{where}: the key {key!r} is not a name")
    return value


def dump(values: Mapping[str, Any]) -> str:
    """Write plain values (None, bool, int, float, str, list, dict) as YAML, keys in the given order."""
    return yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=119)
