"""The files of a repository of Hugging Face's hub, or of a folder that is laid out like one, and what names it."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mobuild import fetch
from mobuild.adopt.place import Place
from mobuild.fetch import hub_names
from mobuild.fetch.taken import Listed
from mobuild.units import about

_PAGE = re.compile(
    r"https?://(?:huggingface\.co|hf\.co)/([^/]+/[^/?#]+)(?:/(?:tree|blob|resolve)/([^/?#]+)(?:/([^?#]*))?)?/?"
)
_CONFIG_BYTES = 1 << 20
_READ = ("*", "onnx/*", "1_Pooling/*")  # of a folder


@dataclass(frozen=True)
class Repository:
    """The files of a repository of the hub at a commit, or of a folder that is laid out like one."""

    name: str  # hf:org/name, or the folder
    files: Mapping[str, Listed]
    commit: str = ""
    folder: Path | None = None

    def uri(self, file: str) -> str:
        return f"{self.name}/{file}{f'@{self.commit}' if self.commit else ''}"

    def document(self, file: str) -> Any:
        """A small file of JSON; None when there is none that can be read."""
        if file not in self.files or self.files[file].size_bytes > _CONFIG_BYTES:
            return None
        try:
            return json.loads((self.folder / file).read_bytes() if self.folder else _fetched(self.uri(file)))
        except (ValueError, RecursionError):
            return None

    def size(self, file: str) -> str:
        return about(self.files[file].size_bytes)


def is_one(word: str) -> bool:
    """Whether a word names something on the hub."""
    return word.startswith("hf:") or bool(_PAGE.fullmatch(word))


def uri_of(word: str) -> str:
    """The address of a page of the hub as a URI; a URI as it is."""
    found = _PAGE.fullmatch(word)
    if not found:
        return word
    name, revision, file = (part and unquote(part) for part in found.groups())
    return f"hf:{name}{f'/{file}' if file else ''}{f'@{revision}' if revision else ''}"


def named(word: str) -> str:
    """What the recipe is called after: the repository, without its owner."""
    return hub_names.parse(uri_of(word)).repository.partition("/")[2]


def on_the_hub(word: str) -> tuple[Repository, str]:
    """The repository that a word names, and the file in it, which is empty where all of it is meant.

    Raises:
        ConfigError: the word names no repository.
        SourceError: it cannot be listed.
    """
    asked = hub_names.parse(uri_of(word))
    name = f"hf:{asked.prefix}{asked.repository}"
    commit, files = fetch.listed(f"{name}@{asked.revision}")
    return Repository(name, files, commit or asked.revision), asked.path


def in_a_folder(path: Path, place: Place) -> Repository:
    folder = place.file(str(path))
    found = [each for pattern in _READ for each in folder.glob(pattern) if each.is_file()]
    files = {each.relative_to(folder).as_posix(): Listed("", each.stat().st_size) for each in sorted(found)}
    return Repository(place.uri(str(path)), files, folder=folder)


def is_folder(path: Path) -> bool:
    """Whether it is a folder as transformers saves one, or as a repository is cloned."""
    return (path / "config.json").is_file()


def _fetched(uri: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        fetch.take(uri, path)
        return path.read_bytes()
