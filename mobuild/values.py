"""Frozen dataclasses that are made by the thousand.

`dataclass(frozen=True)` makes an instance through `object.__setattr__`, field by field, in seven times the time of a
plain one. These are as frozen to the type checker, which is run over all of mobuild, and plain when they run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

_Class = TypeVar("_Class")

if TYPE_CHECKING:
    from typing import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value(cls: type[_Class]) -> type[_Class]: ...

else:

    def value(cls):
        """A dataclass of what is made once, compared and hashed by its fields, and never changed."""
        return dataclass(unsafe_hash=True)(cls)
