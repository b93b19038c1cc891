"""Keys and digests: the one place where values become bytes that are hashed.

A *digest* names bytes, a *key* names work. Keys and digests inside the local store are XXH3-128
(https://xxhash.com, 32 hexadecimal digits); whatever crosses a trust boundary carries SHA-256 beside it.
`xxhash` is imported inside functions, because the worker imports this package under interpreters that
have no xxhash.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NewType

from mobuild.errors import ConfigError
from mobuild.node import fields_of, is_keyed, is_ordered, per_class
from mobuild.values import value

Digest = NewType("Digest", str)
Key = NewType("Key", str)

_CHUNK = 1 << 20
_DIGEST = re.compile("[0-9a-f]{32}")
_SURE, _TEXT = frozenset((str, int, bool, type(None))), frozenset((str,))  # most values, seen at a glance
# What `json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)` makes anew for each value.
_ENCODE = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, json.encoder.encode_basestring, None, ":", ",", True, False, True
)


@dataclass(frozen=True)
class Change:
    """One difference between two fingerprints: `workspace: 1073741824 → 2147483648`."""

    subject: str  # `params.workspace`, `inputs.model`, `code.helper`, `toolchain.onnx`, `revision`
    old: str  # '-' when it did not exist
    new: str
    where: str = ""  # the file that it stands in, where that is known

    def __str__(self) -> str:
        place = f", in {self.where}" if self.where else ""
        return f"{self.subject}: {_short(self.old)} → {_short(self.new)}{place}"

    def document(self) -> dict[str, str]:
        """The change as data; `where` only where it is known."""
        whole = {"subject": self.subject, "old": self.old, "new": self.new}
        return {**whole, "where": self.where} if self.where else whole


@value
class Fingerprint:
    """All that can change one artifact. Equal fingerprints, equal work."""

    kind: str
    revision: int
    params: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)  # role → digest of the artifact
    code: Mapping[str, str] = field(default_factory=dict)  # module → digest of its normalised syntax
    toolchain: Mapping[str, str] = field(default_factory=dict)  # distribution → version

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "revision": self.revision,
            "params": self.params,
            "inputs": self.inputs,
            "code": self.code,
            "toolchain": self.toolchain,
        }

    @cached_property
    def key(self) -> Key:
        return Key(digest_bytes(canonical(self.document())))

    def keys(self) -> Callable[[Mapping[str, str]], Key]:
        """Tells the key of this fingerprint with other inputs, without writing the rest of it down each time."""
        code, tools = (canonical(each) if each else b"{}" for each in (self.code, self.toolchain))
        before = b'{"code":%b,"inputs":' % code  # keys are sorted
        rest = _quoted(self.kind), canonical(self.params), self.revision, tools
        after = b',"kind":%b,"params":%b,"revision":%d,"toolchain":%b}' % rest
        return lambda inputs: Key(digest_bytes(before + canonical(inputs) + after))

    def changes_since(self, old: Fingerprint) -> tuple[Change, ...]:
        """What differs from `old`, field by field, in a stable order."""
        before, after = _flat(old.document()), _flat(self.document())
        subjects = sorted(before.keys() | after.keys())
        pairs = ((name, before.get(name, "-"), after.get(name, "-")) for name in subjects)
        return tuple(Change(*pair) for pair in pairs if pair[1] != pair[2])

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Fingerprint:
        return Fingerprint(**document)


def canonical(value: Any) -> bytes:
    """`value` as JSON bytes that depend on its meaning alone: keys sorted, no spaces, UTF-8.

    `1`, `1.0`, `True` and `"1"` stay different. Sequences are lists. Mappings have string keys.

    Raises:
        ConfigError: a value that JSON cannot hold (infinite, NaN, a key that is no string, an object).
    """
    if not _is_sure(value):
        _check(value, "")
    return "".join(_ENCODE(value, 0)).encode("utf-8", "surrogatepass")


@lru_cache(maxsize=None)  # noqa: UP033 (Python 3.8)
def _quoted(text: str) -> bytes:
    return canonical(text)


def parameters(node: Any) -> dict[str, Any]:
    """The keyed fields of a node (any dataclass) as plain values; a nested dataclass carries its name and revision."""
    return {name: plain(getattr(node, name)) for name, plain in _keyed(type(node))}


@per_class
def _keyed(cls: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    """The keyed fields of a dataclass, and what makes their values plain."""
    return [(spec.name, _in_order if is_ordered(spec) else _plain) for spec in fields_of(cls) if is_keyed(spec)]


def digest_bytes(data: bytes) -> Digest:
    return Digest(_xxh3_128()(data))


@lru_cache(maxsize=None)  # noqa: UP033 (Python 3.8)
def _xxh3_128() -> Callable[[bytes], str]:
    """To ask for it once: an import in a function takes longer than to hash a key."""
    import xxhash

    return xxhash.xxh3_128_hexdigest


def digest_file(path: Path) -> Digest:
    """XXH3-128 of a file's content.

    Reads by `readinto`, not mmap: a file outside the store may be truncated by others meanwhile, which
    raises SIGBUS under mmap.
    """
    import xxhash

    return Digest(_feed(path, xxhash.xxh3_128()).hexdigest())


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, for what crosses a trust boundary and for observed inputs."""
    import hashlib

    return str(_feed(path, hashlib.sha256()).hexdigest())


class Digester:
    """XXH3-128, SHA-256 and size of bytes that pass by, for those who read them anyway."""

    def __init__(self) -> None:
        import hashlib

        import xxhash

        self._quick, self._strong, self.size_bytes = xxhash.xxh3_128(), hashlib.sha256(), 0

    def update(self, data: bytes | memoryview) -> None:
        self.update_quick(data)
        self.update_strong(data)

    def update_quick(self, data: bytes | memoryview) -> None:
        """All but the SHA-256, which takes ten times as long: `update_strong` may follow in another thread."""
        self._quick.update(data)
        self.size_bytes += len(data)

    def update_strong(self, data: bytes | memoryview) -> None:
        self._strong.update(data)

    @property
    def digest(self) -> Digest:
        return Digest(self._quick.hexdigest())

    @property
    def sha256(self) -> str:
        return self._strong.hexdigest()


def _feed(path: Path, state: Any) -> Any:
    buffer = memoryview(bytearray(_CHUNK))
    with open(path, "rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            state.update(buffer[:count])
    return state


def _in_order(value: Any) -> Any:
    """A mapping as its pairs: canonical bytes sort the keys of mappings, and here their order is meaning."""
    return [[key, _plain(item)] for key, item in value.items()] if isinstance(value, Mapping) else _plain(value)


def _plain(value: Any) -> Any:
    if type(value) in _SURE:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        cls = type(value)
        name = getattr(cls, "name", cls.__qualname__)
        return {"()": [name, getattr(cls, "revision", 0)], **parameters(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _is_sure(value: Any) -> bool:
    """Whether JSON can hold `value`, as far as that is seen at a glance; `_check` looks closer, and says where."""
    kind = type(value)
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list and kind is not tuple:
        return kind in _SURE or (kind is float and math.isfinite(value))
    return _SURE.issuperset(map(type, value)) or all(map(_is_sure, value))


def _check(value: Any, where: str) -> None:
    if isinstance(value, (dict, Mapping)):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"parameter {where or 'mapping'!r}: the key {key!r} is no string", f'write "{key}":')
            _check(item, f"{where}.{key}" if where else key)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _check(item, f"{where}[{i}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"parameter {where!r}: {value} is not a finite number")
    elif value is not None and not isinstance(value, (str, int, bool)):
        raise ConfigError(f"parameter {where!r}: a {type(value).__name__} cannot enter a key")


def _short(value: str) -> str:
    """A value for people: of a digest the beginning."""
    return value[:12] if _DIGEST.fullmatch(value) else value


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping) and (value or not prefix):
        flat: dict[str, str] = {}
        for key, item in value.items():
            flat.update(_flat(item, f"{prefix}.{key}" if prefix else key))
        return flat
    return {prefix: value if isinstance(value, str) else json.dumps(value, sort_keys=True)}
