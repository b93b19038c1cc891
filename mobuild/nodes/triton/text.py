"""Protocol buffers as text, for `config.pbtxt` (protobuf text format language specification).

Written from plain values, so that a repository needs no protobuf to be made: a mapping is a message, a list a repeated
field, and a word in a field that model_config.proto has for enumerators is one: TYPE_FP32, KIND_GPU, DELAY.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

_ENUMERATED = ("data_type", "format", "kind", "priority", "timeout_action")
_ENUMERATOR = re.compile(r"[A-Z][A-Z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def message(fields: Mapping[str, Any]) -> str:
    """The text of a message, a field a line, in the order of the mapping."""
    return "\n".join(_lines(fields, "")) + "\n"


def _lines(fields: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, (list, tuple)) and not any(isinstance(each, Mapping) for each in value):
            yield f"{indent}{name}: [{', '.join(_scalar(name, each) for each in value)}]"
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, Mapping):
                yield f"{indent}{name} {{"
                yield from _lines(each, indent + "  ")
                yield f"{indent}}}"
            else:
                yield f"{indent}{name}: {_scalar(name, each)}"


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if name in _ENUMERATED and _ENUMERATOR.fullmatch(str(value)):
        return str(value)
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in str(value)) + '"'
