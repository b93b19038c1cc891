"""A JSON object whose fields are taken one by one; what is missing, of another type or left over is refused."""

from __future__ import annotations

from typing import Any, Sequence

from .errors import EngineError

_REQUIRED = object()
_TYPES = {str: "a text", int: "an integer", float: "a number", list: "a list", dict: "an object", object: "a value"}


class Fields:
    """One object of a document; `place` is how messages call it, `found` has what it holds."""

    def __init__(self, place: str, found: Any) -> None:
        if not isinstance(found, dict):
            raise EngineError(f"{place}: expected an object, found {type(found).__name__}")
        self.place, self.found = place, found
        self._taken: set[str] = set()

    def take(self, name: str, kind: Any, default: Any = _REQUIRED) -> Any:
        """The value of a field, which is of the type `kind`."""
        self._taken.add(name)
        value = self.found.get(name, default)
        if value is _REQUIRED:
            raise EngineError(f"{self.place}: has no field {name!r}")
        is_kind = isinstance(value, (int, float) if kind is float else kind)
        if not is_kind or (isinstance(value, bool) and kind in (int, float)):
            raise EngineError(f"{self.place}: {name}: expected {_TYPES[kind]}, found {value!r}")
        return value

    def choice(self, name: str, choices: Sequence[Any], default: Any = _REQUIRED) -> Any:
        value = self.take(name, object, default)
        if value not in choices:
            raise EngineError(f"{self.place}: {name}: expected one of {', '.join(map(str, choices))}, found {value!r}")
        return value

    def part(self, name: str, default: Any = _REQUIRED) -> Fields:
        """The object that is the value of a field."""
        return Fields(f"{self.place}: {name}", self.take(name, object, default))

    def parts(self, name: str, default: Any = _REQUIRED) -> list[Fields]:
        """The objects in the list that is the value of a field."""
        listed = self.take(name, list, default)
        return [Fields(f"{self.place}: {name}[{number}]", each) for number, each in enumerate(listed)]

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of texts; empty where it is not there."""
        found: dict[str, str] = self.take(name, dict, {})
        for key, value in found.items():
            if not isinstance(value, str):
                raise EngineError(f"{self.place}: {name}: {key}: expected a text, found {value!r}")
        return found

    def end(self) -> None:
        """Raise EngineError when a field was not taken."""
        left = sorted(set(self.found) - self._taken)
        if left:
            raise EngineError(
                f"{self.place}: unknown field {left[0]!r}", "serve it with the runtime that it was made for"
            )
