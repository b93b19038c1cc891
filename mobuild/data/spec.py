"""Where the samples of a node come from, as a recipe says it.

A `Data` is a field of the nodes that read samples. Its paths do not enter the key: the file becomes an
input of the node under the role `data`, whose content does. Reading is left to `samples`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mobuild.errors import ConfigError
from mobuild.node import unkeyed, user_code

PATHS = ("npz", "images", "arrays", "jsonl")


@dataclass(frozen=True)
class Data:
    """One place of samples, and what makes a model's inputs of each.

    `npz`: a file with an array for each input, samples along the first axis, labels under `label`.
    `images`, `arrays`: a folder with a file for each sample, its label the name of its sub-folder.
    `jsonl`: a file with a mapping on each line, its label under `label`.
    `iterator`: a function that yields `(inputs, label)`. A file or folder above is then its to read: it gets the
    path as parameter `data`.
    `transform`: a function from one raw sample to `{input: array without batch}` or to that and a label.
    `limit`: at most so many samples, spread over the files of a folder; 0: all.
    `format` follows from the others and is not to be written.
    """

    revision: ClassVar[int] = 1

    npz: str = unkeyed("")
    images: str = unkeyed("")
    arrays: str = unkeyed("")
    jsonl: str = unkeyed("")
    iterator: str = user_code("")
    transform: str = user_code("")
    limit: int = 0
    format: str = ""

    def __post_init__(self) -> None:
        given = [name for name in PATHS if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(f"data: expected one of {', '.join(PATHS)}, found {' and '.join(given)}")
        found = "iterator" if self.iterator else "".join(given)
        if self.format not in ("", found):
            raise ConfigError(f"data: format is {found!r} by the other fields, found {self.format!r}", "leave it out")
        if self.transform and not found:
            raise ConfigError(
                "data: a transform, but nothing to transform", f"give one of {', '.join(PATHS)}, iterator"
            )
        if found == "images" and not self.transform:
            raise ConfigError(
                "data: images need a transform from the file's path to the model's inputs",
                'write transform: "file.py:function", with function(path) → {input: array without batch}',
            )
        if self.limit < 0:
            raise ConfigError(f"data: limit: expected 0 (all) or a number of samples, found {self.limit}")
        object.__setattr__(self, "format", found)

    @property
    def path(self) -> str:
        """The file or folder, relative to the project's root; empty when there is none."""
        return str(getattr(self, self.file_format)) if self.file_format else ""

    @property
    def file_format(self) -> str:
        """The field that holds `path`."""
        return next((name for name in PATHS if getattr(self, name)), "")

    @property
    def is_given(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.format)
