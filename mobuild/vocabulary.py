"""What a tokenizer's files say of its ids: how many there are, and which are padding or an end.

Read are `tokenizer.json` (Hugging Face tokenizers) and the `config.json` beside it (transformers), which name most
text models' ids. Anything else is no tokenizer to us.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TOKENIZER, _CONFIG = "tokenizer.json", "config.json"
_LARGEST_BYTES = 64 << 20  # vocabularies of 250 000 words take 20 MB
_SPECIAL = ("pad", "bos", "eos", "cls", "sep", "mask", "unk", "decoder_start")


@dataclass(frozen=True)
class Vocabulary:
    """`size` is the highest id and one; `special` are the ids that texts get beside their words, by name."""

    size: int
    special: Mapping[str, int] = field(default_factory=dict)


def read(path: Path) -> Vocabulary | None:
    """The vocabulary of a tokenizer's file, or of a folder that holds one; None where there is none."""
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError, RecursionError):
        return None


@functools.lru_cache
def _read(path: Path, *token: int) -> Vocabulary | None:
    """`token` tells one content of the path from another."""
    if path.is_dir():
        found = {name: _content(path / name) for name in (_TOKENIZER, _CONFIG) if (path / name).is_file()}
    else:
        found = {path.name: _content(path)}
    documents = [each for each in found.values() if isinstance(each, Mapping)]
    ids = [number for each in documents for number in _ids(each)]
    special = {name: number for each in documents for name, number in _special(each).items()}
    return Vocabulary(max([*ids, *special.values()]) + 1, special) if ids else None


def _content(path: Path) -> Any:
    """The JSON of a file; None for what begins like none: weights are never read."""
    with path.open("rb") as stream:
        if stream.read(1) not in b"{ \n\r\t" or path.stat().st_size > _LARGEST_BYTES:
            return None
    return json.loads(path.read_bytes())


def _ids(document: Mapping[str, Any]) -> list[int]:
    """All ids of a tokenizer.json: words by name, or in their order; and what was added."""
    model = document.get("model")
    words = model.get("vocab", ()) if isinstance(model, Mapping) else ()
    added = document.get("added_tokens")
    found = list(words.values()) if isinstance(words, Mapping) else list(range(len(words)))
    found += [each.get("id") for each in added if isinstance(each, Mapping)] if isinstance(added, list) else []
    return [number for number in found if type(number) is int]


def _special(document: Mapping[str, Any]) -> dict[str, int]:
    padding = document.get("padding")
    named = {"pad": padding.get("pad_id")} if isinstance(padding, Mapping) else {}
    named.update({name: document[f"{name}_token_id"] for name in _SPECIAL if f"{name}_token_id" in document})
    added = document.get("added_tokens")
    for each in added if isinstance(added, list) else ():
        if isinstance(each, Mapping) and each.get("special"):
            named[str(each.get("content"))] = each.get("id")
    return {name: number for name, number in named.items() if type(number) is int}
