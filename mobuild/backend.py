"""What a backend is: one builder of engines, as a frozen dataclass with its options as fields.

`nodes.build_engine` owns the work common to all (shapes, parity, measurements); a backend only builds.
Keeps Python 3.8 syntax and imports nothing heavy at module level.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, Mapping, Protocol, Sequence, Tuple

from mobuild.node import Built

Shape = Tuple[int, ...]
Corners = Tuple[Shape, Shape, Shape]


class Profile(Dict[str, Corners]):
    """One optimization profile: input name → (min, opt, max) shapes, dynamic and static axes alike.

    `contents` is (min, opt, max) of what integer inputs hold which are sizes themselves: where a graph is resized or
    expanded to.
    """

    def __init__(self, shapes: Mapping[str, Corners], contents: Mapping[str, Corners] = {}) -> None:
        super().__init__(shapes)
        self.contents = dict(contents)


class Backend(Protocol):
    """A builder of engines for one runtime.

    Its fields enter the key of the engine through the node that holds it. `runtime` names the runner
    of `mobuild.runtime` that opens the engine, `distribution` the package whose version is the builder's.
    `symmetric` backends take int8 with zero point 0 and without integer biases alone (see `onnxmodel.qdq`).
    `notice` is one line for the user about every engine of the backend (what cannot load it), or empty.
    """

    name: ClassVar[str]
    revision: ClassVar[int]
    runtime: ClassVar[str]
    symmetric: ClassVar[bool]
    distribution: ClassVar[str]
    notice: ClassVar[str]

    @property
    def suffix(self) -> str:
        """`.plan`, `.onnx`."""

    @property
    def tools(self) -> tuple[str, ...]:
        """Distributions whose versions enter the key: the builder's, and those that it works through."""

    def build(self, model: Path, profiles: Sequence[Profile], precision: str, out: Path) -> Built:
        """Build the engine of the ONNX file `model` and write it to `out`.

        `profiles` is empty when no axis of the model is dynamic.

        Raises:
            ToolchainError: the builder is not installed; says what to install.
            NodeFailed: the builder refused, in its own words, with the remedy where one is known.
        """

    def lacks(self, precision: str) -> str:
        """Why the backend builds no engine of the precision for its target; empty when it may."""

    def runs_here(self) -> str:
        """Why this machine cannot run the engine; empty when it can."""

    def run_options(self, profiles: Sequence[Profile]) -> Mapping[str, Any]:
        """Options of `runtime.runner.open_engine` to open the engine, which was built for `profiles`."""


@dataclass(frozen=True)
class Opening:
    """What it takes to open an engine that another node builds: its backend, the sizes it takes, its precision."""

    backend: Backend
    shapes: Any = None
    precision: str = "fp32"


class ReadsFiles(Protocol):
    """A backend that reads files of the project besides the model: plugins, a pinned timing cache.

    The fields that hold their paths are `node.unkeyed`; the files are inputs of the engine, by content.
    """

    @property
    def sources(self) -> Mapping[str, str]:
        """Role → path, as kind `source` takes them."""

    def placed(self, inputs: Mapping[str, Path]) -> Backend:
        """The backend with the paths under which its files lie during the build."""


class BuildsOnCard(Protocol):
    """A backend that builds only where its engines run: `runs_here` says whether that is here."""

    builds_on_card: ClassVar[bool]


class NeedsLibrary(Protocol):
    """A backend that needs one more file of the package that it builds with than every installation of it has."""

    @property
    def library(self) -> str:
        """The file, below a folder of packages; empty with options that need none."""


class CarriesLibraries(Protocol):
    """A backend whose engines need native code of the user's: `placed` gets it, and the engine takes it along."""

    carries: ClassVar[str]
    """What the roles of these libraries begin with, see `mobuild.libraries`."""


class TellsCommand(Protocol):
    """A backend whose engines can be built with other tools, too."""

    def command(self, model: str, profiles: Sequence[Profile], precision: str, out: str, version: str) -> str:
        """Shell lines that do so, for the builder's `version`."""


class WeaklyTyped(Protocol):
    """A backend that may use lower types than those of the graph, which therefore need not be there."""

    @property
    def is_weak(self) -> bool:
        """Whether it does, with its present options."""
