"""A pickle as values, read from its opcodes: nothing in it is imported, called or built.

What a pickle would call becomes a `Made` with the name of the function, so that a file of weights can be listed
before anyone decides to trust it. Opcodes are those of the `pickletools` module.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mobuild.errors import SourceError

_PUSHES = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
}
_MAKES = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": set}
_STORES = ("PUT", "BINPUT", "LONG_BINPUT")
_LOADS = ("GET", "BINGET", "LONG_BINGET")
_NOTHING = ("PROTO", "FRAME", "STOP", "NEXT_BUFFER", "READONLY_BUFFER")
_OF_THE_MARK = {"TUPLE": tuple, "LIST": list, "FROZENSET": tuple}
_ENDS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Name:
    """A function or class that a pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Made:
    """What a pickle would make by calling `function`; `state` is what it would put into that."""

    function: Name
    arguments: tuple[Any, ...] = ()
    state: Any = None


@dataclass(frozen=True)
class Stored:
    """What lies outside the pickle, by the id that it is known under there."""

    id: Any


@dataclass
class Read:
    """One pickle: its value, the names in it, and where the next one begins."""

    value: Any
    names: list[Name] = field(default_factory=list)
    end: int = 0


class _Mark:
    pass


def read(content: bytes, shown: str, start: int = 0) -> Read:
    """The pickle that begins at `start`.

    Raises:
        SourceError: it is none, or a damaged one.
    """
    stream = io.BytesIO(content)
    stream.seek(start)
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            machine.step(opcode.name, argument)
        (value,) = machine.take(1)
        return Read(value, machine.names, stream.tell())
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError, UnicodeError) as error:
        raise SourceError(
            f"source {shown!r}: holds a damaged pickle: {' '.join(str(error).split())[:200]}", "fetch or save it again"
        ) from error


class _Machine:
    """The stack that opcodes work on."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.names: list[Name] = []

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _NOTHING:
            return
        if opcode in _PUSHES:
            self.stack.append(_PUSHES[opcode])
        elif opcode in _MAKES:
            self.stack.append(_MAKES[opcode]())
        elif opcode in _STORES:
            self.memo[int(argument)] = self.stack[-1]
        elif opcode == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif opcode in _LOADS:
            self.stack.append(self.memo[int(argument)])
        elif opcode in _ENDS:
            self.stack.append(tuple(self.take(_ENDS[opcode])))
        elif opcode in _OF_THE_MARK:
            self.stack.append(_OF_THE_MARK[opcode](self._since_mark()))
        elif method := getattr(self, f"_{opcode.lower()}", None):
            method(argument)
        else:  # a number or a text, which is the opcode's argument
            self.stack.append(argument)

    def take(self, count: int) -> list[Any]:
        taken = self.stack[-count:]
        if len(taken) < count or any(isinstance(each, _Mark) for each in taken):
            raise IndexError("its stack is empty")
        del self.stack[-count:]
        return taken

    def _since_mark(self) -> list[Any]:
        start = next((i for i in _downwards(self.stack) if isinstance(self.stack[i], _Mark)), None)
        if start is None:
            raise IndexError("it has no mark")
        taken = self.stack[start + 1 :]
        del self.stack[start:]
        return taken

    def _mark(self, _: Any) -> None:
        self.stack.append(_Mark())

    def _pop(self, _: Any) -> None:
        self.stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _dup(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def _empty_tuple(self, _: Any) -> None:
        self.stack.append(())

    def _dict(self, _: Any) -> None:
        pairs = self._since_mark()
        self.stack.append({})
        self._put(pairs)

    def _setitem(self, _: Any) -> None:
        self._put(self.take(2))

    def _setitems(self, _: Any) -> None:
        self._put(self._since_mark())

    def _put(self, pairs: list[Any]) -> None:
        holder = self.stack[-1]
        if isinstance(holder, dict):
            keys = [each if isinstance(each, (str, int, bytes)) else _Key(each) for each in pairs[::2]]
            holder.update(zip(keys, pairs[1::2], strict=True))

    def _append(self, _: Any) -> None:
        self._extend(self.take(1))

    def _appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def _additems(self, _: Any) -> None:
        self._since_mark()

    def _global(self, argument: Any) -> None:
        self._name(*str(argument).split(" ", 1))

    def _stack_global(self, _: Any) -> None:
        module, name = self.take(2)
        self._name(module, name)

    def _name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("it names a function by what is no text")
        self.names.append(Name(module, name))
        self.stack.append(self.names[-1])

    def _reduce(self, _: Any) -> None:
        function, arguments = self.take(2)
        self.stack.append(_called(function, arguments))

    def _newobj(self, _: Any) -> None:
        self._reduce(None)

    def _newobj_ex(self, _: Any) -> None:
        function, arguments, _ = self.take(3)
        self.stack.append(_called(function, arguments))

    def _inst(self, argument: Any) -> None:
        arguments = self._since_mark()
        self._global(argument)
        self.stack.append(_called(self.stack.pop(), tuple(arguments)))

    def _obj(self, _: Any) -> None:
        function, *arguments = self._since_mark()
        self.stack.append(_called(function, tuple(arguments)))

    def _build(self, _: Any) -> None:
        (state,) = self.take(1)
        if isinstance(self.stack[-1], Made):
            self.stack[-1].state = state

    def _binpersid(self, _: Any) -> None:
        self.stack.append(Stored(*self.take(1)))

    def _persid(self, argument: Any) -> None:
        self.stack.append(Stored(argument))


class _Key:
    """A key that is neither text nor number."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _downwards(stack: list[Any]) -> Iterator[int]:
    return iter(range(len(stack) - 1, -1, -1))


def _called(function: Any, arguments: Any) -> Any:
    """What a call makes; dictionaries of the standard library are dictionaries here, too."""
    if not isinstance(function, Name):
        raise TypeError("it calls what has no name")
    if str(function) in ("collections.OrderedDict", "collections.defaultdict", "builtins.dict"):
        return {}
    return Made(function, tuple(arguments))
