"""All observers of one node, switched on and off together."""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

from mobuild.observers import modules
from mobuild.observers.environment import Variables
from mobuild.observers.files import Files, by_any_name
from mobuild.observers.native import READS, Reads
from mobuild.observers.presence import ABSENT, PRESENT

_SHOWN = 3  # of the files that a warning names


class Watch:
    """Watches the code inside its `with`; `document()` says afterwards what was seen, and by whom."""

    def __init__(self, job: Mapping[str, Any], *, distributions: bool) -> None:
        roots = (job["project"], job["folder"])
        known = job["known_files"]
        self._known = by_any_name(known)
        self._distributions = distributions
        own = [*job["inputs"].values(), job["out"]]
        self._files = Files(roots, self._known, job["ignored_folders"], own)
        self._reads = Reads(self._files, os.environ.get(READS, ""))
        self._variables = Variables(job.get("secrets", ()), job.get("env", ()))

    def __enter__(self) -> Watch:
        self._reads.start()
        self._files.start()
        self._variables.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._variables.stop()
        self._files.stop()
        self._reads.stop()

    def document(self) -> dict[str, Any]:
        all_loaded = modules.loaded()
        loaded, absent = modules.first_party(all_loaded, self._known), modules.absent(all_loaded)
        files = {**dict.fromkeys(absent, ABSENT), **self._reads.files, **self._files.files}
        own, others = modules.distributions(self._reads.packages) if self._distributions else ({}, {})
        code = frozenset(loaded.values())  # counts by its meaning, though tracebacks and exporters read its lines
        observed = {
            "files": {path: digest for path, digest in files.items() if path not in code},
            "folders": {**self._reads.folders, **self._files.folders},
            "presence": self._unread(self._files.presence, loaded),
            "links": {**self._unread(self._files.links, loaded), **self._leading()},
            "environment": self._variables.read,
            "missing": modules.missing(),
            "modules": {**{path: path for path in self._reads.modules}, **loaded},
            "sources": {**self._reads.modules, **modules.sources(loaded)},
            "distributions": own,
            "programs": others,
        }
        written = sorted(self._files.written_first)  # for an observer in another process
        user_code = modules.is_any_first_party(all_loaded)
        return {"observed": observed, "observed_by": self._on(), "written": written, "user_code": user_code}

    def _unread(self, found: Mapping[str, str], loaded: Mapping[str, str]) -> dict[str, str]:
        """Of what was asked about, that which was neither read, listed nor loaded: those count by their content."""
        reads = self._reads
        others = {
            *self._files.files,
            *self._files.folders,
            *reads.files,
            *reads.folders,
            *reads.modules,
            *loaded.values(),
        }
        return {path: answer for path, answer in found.items() if path not in others}

    def _leading(self) -> dict[str, str]:
        """The links among what was asked about; where they lead says more than their content."""
        return {path: answer for path, answer in self._files.links.items() if answer not in (ABSENT, PRESENT)}

    def warnings(self) -> list[str]:
        """A sentence for each observer that failed, since what it should have seen may change unnoticed, and one for
        what the node left in the project, which a hit does not bring back."""
        failed = [
            f"the observer of {name} stopped ({why}); later reads are not known"
            for name, why in self._failures().items()
            if why
        ]
        strays = self.strays()
        more = "the cache keeps the artifact alone, and a run that takes it from there writes nothing else"
        return failed + ([f"it also wrote {strays} into the project: {more}"] if strays else [])

    def strays(self) -> str:
        """The first few files that the node left in the project, for a message; empty when there are none."""
        left = sorted(self._reads.written | self._files.written)
        return _first([os.path.relpath(path) for path in left if self._is_stray(path)])

    def _is_stray(self, path: str) -> bool:
        return self._files.is_in_project(path) and self._files.is_undeclared(path)

    def _on(self) -> list[str]:
        failed = self._failures()
        names = ["files", "environment", "modules"]
        names += ["distributions"] * self._distributions + ["preload"] * self._reads.is_on
        return [name for name in names if not failed.get(name)]

    def _failures(self) -> dict[str, str]:
        return {
            "files": self._files.failure,
            "environment": self._variables.failure,
            "preload": self._reads.failure,
        }


def _first(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(map(repr, paths[:_SHOWN]))}{more}"
