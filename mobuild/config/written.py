"""What a text of the configuration refers to, as it is written: jobs of a sweep that say the same share their nodes.

Nothing is resolved. Whatever a text may refer to counts, be it that a word of it only looks so: a question too many
costs the making of a node, one too few would give a job the node of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from omegaconf import DictConfig

from mobuild.config.project import Project, once
from mobuild.config.reading import conf_defaults, conf_names, raw

_WORD = re.compile(r"[A-Za-z_]\w*")
_RESOLVER = re.compile(r"\$\{\s*([^\s{}:]+)\s*:")
# A key that another one says: `${..${x}}`, `${oc.select:${x}}`; a default and a variable's name are none.
_FOUND_LATER = re.compile(r"\$\{(?!oc\.env:|oc\.select:[\w.]+,)[^{}]*\$\{")
_STEADY = ("oc.env", "oc.select", "oc.create", "oc.dict.keys", "oc.dict.values", "mobuild.device")
_MEANT = {"chain": ("nodes",), "backend": ("backend", "hardware", "builders")}  # what else such a word reads


class Written:
    """The texts of the top of one configuration."""

    def __init__(self, scope: DictConfig, project: Project) -> None:
        self._scope, self._project = scope, project
        self._known: dict[str, str] = {}

    def referred(self, text: str, further: Iterable[str]) -> Mapping[str, str] | None:
        """Key → what is written there, of all keys at the top that `text` may refer to, those beneath them, and
        `further` ones; None where that cannot be told from the text."""
        found: dict[str, str] = {}
        waiting, keys = [text], set(further)
        while waiting or keys:
            for key in sorted(keys - found.keys()):
                found[key] = self._text(key)
                waiting.append(found[key])
            keys = set()
            if waiting:
                words = _referring(waiting.pop())
                if words is None:
                    return None
                if "backend" in words and "backend" not in found:
                    waiting.append(_text_of_backends(self._project))
                keys = {key for word in words for key in (word, *_MEANT.get(word, ())) if key in self._top}
                keys |= self._odd if words else set()
        return found

    @cached_property
    def _top(self) -> frozenset[str]:
        return frozenset(map(str, self._scope._value()))

    @cached_property
    def _odd(self) -> set[str]:
        """Keys that are no words, such as `my-size`."""
        return {key for key in self._top if not _WORD.fullmatch(key)}

    def _text(self, key: str) -> str:
        if key not in self._known:
            self._known[key] = str(raw({key: self._scope._get_node(key)})) if key in self._top else ""
        return self._known[key]


@lru_cache(maxsize=4096)
def _referring(text: str) -> frozenset[str] | None:
    """The words of a text that refers to something; None where the name itself, or the value, is found at run time."""
    if _FOUND_LATER.search(text) or not set(_RESOLVER.findall(text)) <= set(_STEADY):
        return None
    return frozenset(_WORD.findall(text)) if "${" in text or "backend" in text else frozenset()


@once
def _text_of_backends(project: Project) -> str:
    return " ".join(str(conf_defaults(project, "backend", name)) for name in conf_names(project, "backend"))
