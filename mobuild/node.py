"""What a node is: the protocol that every kind fulfils, and how its parameters travel.

A kind is one frozen dataclass in one file. Its fields are its parameters, and all of them enter the
key: there is no second list of what to hash. Three marks on a field change that: `user_code()` says that
the string names the user's Python (`file.py:attribute` or `package.module:attribute`), whose closure
then enters the key as well; `ordered()` says that the order of a mapping counts; `unkeyed()` says that the
field cannot change the artifact (where a pinned file is fetched from). Kinds import only the standard
library at module level and keep Python 3.8 syntax, because the worker may run them under the user's own
interpreter.
"""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, ClassVar, Collection, Mapping, Protocol, Sequence, TypeVar

Answer = TypeVar("Answer")
_MARK = "mobuild"
_PLAIN = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True)
class Built:
    """What a node says about the artifact that it wrote.

    `measurements` are numbers and short texts by name; `onnx` is the summary of `onnxmodel.summary`
    when the artifact is an ONNX model; `warnings` are whole sentences for the user.
    """

    measurements: Mapping[str, Any] = field(default_factory=dict)
    onnx: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


class Sources(Protocol):
    """A node whose parameters name files of the project; they become inputs under these roles."""

    @property
    def sources(self) -> Mapping[str, str]:
        """Role → path or URI, as kind `source` takes them."""

    is_beside_recipe: ClassVar[bool]
    """Whether the paths are relative to the recipe, if the kind says so, as those of code are; else to the project."""

    said_by: ClassVar[str]
    """The key of the configuration that names them, if the kind says so."""


class Drops(Protocol):
    """A node that, with its present parameters, does without some of the roles that its kind needs."""

    @property
    def unneeded(self) -> Sequence[str]:
        """Roles whose nodes need not be built for it."""


class PassesThrough(Protocol):
    """A node that, with its present parameters, is its input: no step, no key."""

    @property
    def passes_through(self) -> str:
        """The role that stands for the node; empty when the node does something."""


class Trends(Protocol):
    """A node of which some measurements tell more beside those of its last build."""

    trends: ClassVar[Sequence[str]]
    """Names of measurements; the record holds the last build's as well, with `_before` behind the name."""


class Alternatives(Protocol):
    """A node that can be done in several ways, each with a key of its own: on the device, or by proxy."""

    @property
    def alternatives(self) -> Sequence[Node]:
        """Best first. A record of the earliest is taken; without any, the last is built."""

    @property
    def unkeyed_roles(self) -> Sequence[str]:
        """Of one alternative: roles that must be done before it but cannot change what it makes."""

    @property
    def is_passing(self) -> bool:
        """Of one alternative, if it has that: whether this machine may soon be able to do a better one."""


@dataclass(frozen=True)
class Fact:
    """What a plan knows of a node that is done: the key of its work, the SHA-256 of its artifact where the store has
    one, the versions that made it, the word of its verdict."""

    key: str = ""
    sha256: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    verdict: str = ""


def word_of(facts: Mapping[str, Fact]) -> str:
    """One word for all that was judged: passed, proxy, or not run."""
    words = {fact.verdict for fact in facts.values()}
    return next((word for word in ("proxy", "not run", "passed") if word in words), "not run")


class Told(Protocol):
    """A node of which some parameters are known only when the nodes that it needs are done."""

    def told(self, facts: Mapping[str, Fact]) -> Node:
        """The node with these; `facts` are by role, without sources."""


class Checks(Protocol):
    """A node that can judge its inputs before it runs, by their ONNX summaries."""

    def check(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """`summaries` holds a summary for each role whose artifact is a known ONNX model.

        Raises:
            ConfigError: the node's parameters do not fit the model.
        """


class Publishes(Protocol):
    """A node whose artifact can be put where others fetch it: an action after the build, and never a node."""

    def push(self, artifact: Path, reference: str) -> str:
        """Push the artifact to `reference`; one line that tells what is there now, with its digest.

        Raises:
            PushFailed: it does not get there.
        """


class Ships(Protocol):
    """A node whose artifact is handed on, with a statement of its provenance and artifacts of others beside it."""

    beside: ClassVar[Sequence[str]]
    """Roles whose artifacts lie beside the artifact, under its name with their suffixes."""


class ChecksRoles(Protocol):
    """A node that can judge the roles of its needs, before any of them is built."""

    def check_roles(self, roles: Collection[str]) -> None:
        """
        Raises:
            ConfigError: the node's parameters ask for a role that is not there.
        """


class ChecksCode(Protocol):
    """A node that can judge code of the user's by its syntax, before anything is built."""

    def check_code(self, folder: Path, project: Path) -> None:
        """`folder` is the recipe's.

        Raises:
            ConfigError: the node's parameters name what the code surely does not define.
        """


class Node(Protocol):
    """One step of a build: parameters as frozen fields, and `build`.

    `kind` and `revision` enter the key; raise `revision` whenever the same fields and inputs may give
    other bytes. `isolated` kinds run the user's code or a builder and get a fresh process; the others
    share a warm one. `tools` are the distributions whose versions can change the artifact.
    """

    kind: ClassVar[str]
    revision: ClassVar[int]
    isolated: ClassVar[bool]

    @property
    def suffix(self) -> str:
        """File name ending of the artifact (`.onnx`); empty for a folder or an unknown type."""

    @property
    def tools(self) -> tuple[str, ...]:
        """Distribution names whose installed versions enter the key."""

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        """Write the artifact to `out`, which does not exist yet, as a file or a folder.

        `inputs` holds one readable path per role; they are never to be changed. Relative paths in the
        user's code are relative to the project's root, which is the working directory.
        """


def user_code(default: Any = dataclasses.MISSING) -> Any:
    """A field that names the user's Python, `file.py:attribute` or `package.module:attribute`."""
    return field(default=default, metadata={_MARK: "code"})


def unkeyed(default: Any = dataclasses.MISSING) -> Any:
    """A field that cannot change the artifact and therefore stays out of the key."""
    return field(default=default, metadata={_MARK: "unkeyed"})


def ordered(default: Any = dataclasses.MISSING, default_factory: Any = dataclasses.MISSING) -> Any:
    """A mapping whose order is meaning (the order of a network's arguments) and enters the key."""
    if default_factory is not dataclasses.MISSING:
        return field(default_factory=default_factory, metadata={_MARK: "ordered"})
    return field(default=default, metadata={_MARK: "ordered"})


def per_class(of: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """`of`, asked once for each class: a plan asks the same of thousands of nodes."""
    return lru_cache(maxsize=None)(of)


@per_class
def fields_of(cls: Any) -> Sequence[dataclasses.Field[Any]]:
    """The fields of a dataclass."""
    return dataclasses.fields(cls)


def is_code(spec: dataclasses.Field[Any]) -> bool:
    return spec.metadata.get(_MARK) == "code"


def is_keyed(spec: dataclasses.Field[Any]) -> bool:
    return spec.metadata.get(_MARK) != "unkeyed"


def is_ordered(spec: dataclasses.Field[Any]) -> bool:
    return spec.metadata.get(_MARK) == "ordered"


def inside(node: Any) -> list[Any]:
    """`node` and the dataclasses that it holds: in its fields, in mappings there, in each other."""
    found = [node]
    for name in _names(type(node)):
        value = getattr(node, name)
        if type(value) in _PLAIN:  # most of them; a plan asks this of each of its nodes
            continue
        for held in value.values() if isinstance(value, Mapping) else (value,):
            if dataclasses.is_dataclass(held):
                found += inside(held)
    return found


def code_references(node: Any) -> tuple[str, ...]:
    """The user's code that `node` and what it holds name."""
    return references_of(inside(node))


def references_of(held: Sequence[Any]) -> tuple[str, ...]:
    """The user's code that those dataclasses name in fields of their own."""
    return tuple(str(value) for each in held for name in _code_names(type(each)) if (value := getattr(each, name)))


@per_class
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields_of(cls))


@per_class
def _code_names(cls: Any) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields_of(cls) if is_code(spec))


def encode(value: Any) -> Any:
    """`value` as JSON data; a dataclass becomes its fields beside `_target_`, so that `decode` can
    make it again in another process."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        cls = type(value)
        fields = {spec.name: encode(getattr(value, spec.name)) for spec in dataclasses.fields(value)}
        return {"_target_": f"{cls.__module__}.{cls.__qualname__}", **fields}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(data: Any) -> Any:
    """The value that `encode` wrote: lists come back as tuples, `_target_` as its dataclass."""
    if isinstance(data, dict):
        fields: dict[str, Any] = {key: decode(item) for key, item in data.items() if key != "_target_"}
        return target(data["_target_"])(**fields) if "_target_" in data else fields
    if isinstance(data, list):
        return tuple(decode(item) for item in data)
    return data


def target(path: str) -> Any:
    """The attribute at a dotted path such as `mobuild.nodes.export.Export`.

    Raises:
        ImportError, AttributeError: there is no such module or attribute.
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
