"""Extension of griffe, which reads the package for the API reference: a setting's help text is its docstring."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class FieldHelp(griffe.Extension):
    """Reads `field(metadata={"help": …})`, and `_setting(default, help)`, which makes such fields."""

    def on_attribute_instance(self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: Any) -> None:
        """Give a field its help text, and show its default in place of the call."""
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Call):
            return
        help_text, default = _read(node.value)
        if help_text is not None:
            attr.docstring = griffe.Docstring(_text(help_text), parent=attr)
            attr.value = ast.unparse(default) if default is not None else None


def _read(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """The expressions of a field's help and default, None where there is none."""
    if isinstance(call.func, ast.Name) and call.func.id == "_setting":
        return call.args[1], call.args[0]
    arguments = {keyword.arg: keyword.value for keyword in call.keywords}
    default, metadata = arguments.get("default"), arguments.get("metadata")
    if default is None and isinstance(factory := arguments.get("default_factory"), ast.Name):
        default = ast.parse(f"{factory.id}()", mode="eval").body
    entries = zip(metadata.keys, metadata.values, strict=True) if isinstance(metadata, ast.Dict) else ()
    return next((value for key, value in entries if key and ast.unparse(key) == "'help'"), None), default


def _text(expression: ast.expr) -> str:
    """A text as it is; of an f-string, the names of what is filled in."""
    if isinstance(expression, ast.JoinedStr):
        return "".join(map(_text, expression.values))
    if isinstance(expression, ast.FormattedValue):
        return ast.unparse(expression.value)
    return str(ast.literal_eval(expression))
