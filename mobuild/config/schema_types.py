"""JSON Schema of Python types: the fields of a kind or backend, with what its docstring and comments say of them.

Every value may be an interpolation, `${…}`, so each schema takes a text with one beside what the type says.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
import types
import typing
from collections import abc
from collections.abc import Mapping
from typing import Any

from mobuild import node as nodes

Schema = dict[str, Any]

INTERPOLATION: Schema = {"type": "string", "pattern": r"\$\{"}
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_SENTENCE = re.compile(r"(?<=[.;:])\s+")


def either(*schemas: Schema) -> Schema:
    """Any of `schemas`, or an interpolation."""
    return {"anyOf": [*schemas, {"$ref": "#/$defs/interpolation"}]}


def fields(cls: type) -> dict[str, Schema]:
    """Field → its schema, with default and description."""
    hints, told = typing.get_type_hints(cls), _descriptions(cls)
    found: dict[str, Schema] = {}
    for spec in dataclasses.fields(cls):
        schema = of_type(hints[spec.name])
        if text := told.get(spec.name):
            schema = {**schema, "description": text}
        if nodes.is_code(spec):
            schema = {**schema, "examples": ["file.py:function"]}
        if spec.default is not dataclasses.MISSING and _is_plain(spec.default):
            schema = {**schema, "default": _listed(spec.default)}
        found[spec.name] = schema
    return found


def described(cls: type) -> str:
    """The first paragraph of the docstring."""
    return " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())


def of_type(hint: Any) -> Schema:
    """What may stand in YAML where a field has the type `hint`; anything for a type that YAML cannot tell."""
    if hint in _PLAIN:
        return {"type": "string"} if hint is str else either({"type": _PLAIN[hint]})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _union(arguments)
    if origin is typing.Literal:
        return either({"enum": list(arguments)})
    if origin is abc.Mapping:
        return either({"type": "object", "additionalProperties": of_type(arguments[1])})
    if origin in (abc.Sequence, tuple, list):
        return either({"type": "array", "items": of_type(arguments[0])})
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        properties = {"_target_": {"type": "string"}, **fields(hint)}
        return either({"type": "object", "properties": properties, "additionalProperties": False})
    return {}


def of_value(value: Any, comments: Mapping[str, str] = {}, place: str = "") -> Schema:
    """What may stand where a default of ours has `value`; of null nothing is known."""
    if isinstance(value, Mapping):
        properties = {
            str(key): _commented(of_value(item, comments, f"{place}{key}."), comments.get(f"{place}{key}"))
            for key, item in value.items()
        }
        return either({"type": "object", "properties": properties, "additionalProperties": not value})
    if value is None:
        return {}
    if isinstance(value, (list, tuple)):
        return either({"type": "array"})
    if isinstance(value, (bool, str)):
        return of_type(type(value))
    return either({"type": "number"})


def _commented(schema: Schema, text: str | None) -> Schema:
    return {**schema, "description": text} if text else schema


def _union(arguments: tuple[Any, ...]) -> Schema:
    parts = [of_type(one) for one in arguments]
    if {} in parts:
        return {}
    own = [each for part in parts for each in part.get("anyOf", [part]) if "$ref" not in each]
    return either(*own)


def _descriptions(cls: type) -> dict[str, str]:
    """Field → the comment on its line, or the sentences of the docstring that begin with its name."""
    names = [spec.name for spec in dataclasses.fields(cls)]
    text = " ".join((inspect.getdoc(cls) or "").split())
    found = {name: _sentences(text, name) for name in names}
    try:
        source = textwrap.dedent(inspect.getsource(cls))
        lines, (tree,) = source.splitlines(), ast.parse(source).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return found
    for statement in tree.body if isinstance(tree, ast.ClassDef) else ():
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            line = lines[(statement.end_lineno or statement.lineno) - 1]
            comment = line[statement.end_col_offset or 0 :].strip()
            if comment.startswith("#") and statement.target.id in names:
                found[statement.target.id] = comment.lstrip("# ")
    return found


def _sentences(text: str, name: str) -> str:
    told = [one.strip() for one in _SENTENCE.split(text) if f"`{name}`" in one]
    return " ".join(told)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, tuple, list, type(None))) and not callable(value)


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, (tuple, list)) else value
