"""The builder calls that TensorRT-RTX and TensorRT share: parse, configure, build, and believe nothing.

The bindings log most misuse instead of raising, and a setter may keep its old value in silence. So every
setter is followed by its getter, and any logged error is a failure, in the builder's own words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from mobuild import hooks
from mobuild.backend import Profile
from mobuild.backends import parser_errors
from mobuild.backends.builder_log import Said, logger, progress
from mobuild.errors import NodeFailed, did_you_mean
from mobuild.node import Built
from mobuild.remedies import explained, failures, remedy
from mobuild.units import parse_size

_BFLOAT16_FROM = 8.0


class Builder:
    """One build: the objects of the binding `trt`, which must live together, and their log.

    `product` is how messages call the builder: `TensorRT-RTX 1.7.1.116`.
    """

    def __init__(self, trt: Any, product: str, is_typed: bool = True) -> None:
        """`is_typed`: the graph's types are the engine's; without it, flags of the configuration allow lower ones."""
        self.trt, self.product = trt, product
        self.said = Said()
        self._log = logger(trt, self.said)
        self._builder = trt.Builder(self._log)
        typed = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        self._network = self._builder.create_network(typed if is_typed else 0)
        self._parser = trt.OnnxParser(self._network, self._log)
        self.config = self._builder.create_builder_config()
        self.profiles: list[Any] = []
        self._progress = progress(trt)  # must outlive the build
        self.set("progress_monitor", self._progress)
        self.set("profiling_verbosity", trt.ProfilingVerbosity.LAYER_NAMES_ONLY)

    def load_plugins(self, libraries: Sequence[str]) -> None:
        """Register NVIDIA's own plugins and those of `libraries`; before `parse`, which looks for them."""
        self.trt.init_libnvinfer_plugins(self._log, "")
        for library in libraries:
            if self._builder.get_plugin_registry().load_library(library) is None:
                raise self.failure(f"cannot load the plugins of '{library}'", self.said.errors)

    def parse(self, model: Path) -> None:
        """Read the ONNX file by its path, which is how external data is found."""
        if self._parser.parse_from_file(str(model)):
            return self.refuse_errors()
        found = [self._parser.get_error(i) for i in range(self._parser.num_errors)]
        raise self.failure("cannot read the model", parser_errors.texts(found, model))

    def add_profiles(self, profiles: Sequence[Profile]) -> None:
        for i, shapes in enumerate(profiles):
            profile = self._builder.create_optimization_profile()
            for name, corners in shapes.items():
                profile.set_shape(name, *corners)
                found = [tuple(shape) for shape in profile.get_shape(name)]
                self.expect(f"profile {i}, input {name!r}", [tuple(shape) for shape in corners], found)
            for name, corners in getattr(shapes, "contents", {}).items():
                profile.set_shape_input(name, *corners)
                found = [tuple(held) for held in profile.get_shape_input(name)]
                self.expect(f"profile {i}, what input {name!r} holds", [tuple(held) for held in corners], found)
            self.expect("number of profiles", i, self.config.add_optimization_profile(profile))
            self.profiles.append(profile)

    def limit(self, pool: str, size_bytes: int) -> None:
        """Set the limit of a memory pool, a member of `MemoryPoolType`."""
        member = getattr(self.trt.MemoryPoolType, pool)
        self.config.set_memory_pool_limit(member, size_bytes)
        self.expect(f"memory pool {pool}", size_bytes, self.config.get_memory_pool_limit(member))

    def set_raw(self, raw: Mapping[str, Any]) -> None:
        """Set what mobuild does not know: members of `BuilderFlag` (true or false) and of
        `MemoryPoolType` (a size), and attributes of `IBuilderConfig` (enumerations by name)."""
        for name, value in raw.items():
            if name in self.trt.BuilderFlag.__members__:
                self.set_flag(name, bool(value))
            elif name in self.trt.MemoryPoolType.__members__:
                self.limit(name, parse_size(value, f"raw.{name}"))
            else:
                self.set(name, self._member(name, value))

    def set(self, name: str, value: Any) -> None:
        """Set an attribute of the configuration."""
        try:
            setattr(self.config, name, value)
        except AttributeError as error:
            raise self._unknown_option(name, error) from error
        except TypeError as error:  # its text is a page of C++ signatures
            kind = type(getattr(self.config, name)).__name__
            raise self.failure(f"refuses {name}: expected a value of type {kind}, found {value!r}", ()) from error
        self.expect(name, value, getattr(self.config, name))

    def set_flag(self, name: str, wanted: bool = True) -> None:
        """Set or clear a member of `BuilderFlag`."""
        flag = getattr(self.trt.BuilderFlag, name)
        (self.config.set_flag if wanted else self.config.clear_flag)(flag)
        self.expect(f"flag {name}", wanted, self.config.get_flag(flag))

    def apply(self, hook: str) -> None:
        """Let the user's hook, if there is one, change the network and the configuration, after all else."""
        if hook:
            hooks.call(hook, "hook(builder, network, config)", self._builder, self._network, self.config)
            self.refuse_errors()

    def build(self) -> bytes:
        plan = self._builder.build_serialized_network(self._network, self.config)
        if plan is None or self.said.errors:
            raise self.failure("built no engine", self.said.errors)
        if grave := failures(self.said.warnings):
            raise self.failure("built an engine that would fail", grave)
        return bytes(plan)

    def built(self, **measurements: Any) -> Built:
        """What the log tells of the finished build, beside `measurements`."""
        told = self.said.measurements()
        return Built({"builder": self.product, **measurements, **told}, warnings=explained(self.said.warnings))

    def expect(self, name: str, wanted: Any, found: Any) -> None:
        """Raise NodeFailed unless the builder took the value."""
        if wanted != found:
            raise self.failure(f"{name}: expected {wanted}, found {found}", self.said.errors)
        self.refuse_errors()

    def refuse_errors(self) -> None:
        if self.said.errors:
            raise self.failure("logged an error", self.said.errors)

    def failure(self, what: str, words: Sequence[str]) -> NodeFailed:
        """The error that holds the builder's words and the remedy, where one is known."""
        causes = [text for text in words if not _is_echo(text)] or words
        said = "; ".join(dict.fromkeys(" ".join(text.split()) for text in causes))
        return NodeFailed(f"{self.product} {what}: {said}" if said else f"{self.product} {what}", remedy(said))

    def _member(self, name: str, value: Any) -> Any:
        """`value`, or the member that it names where the attribute is an enumeration."""
        try:
            members = getattr(type(getattr(self.config, name)), "__members__", None)
        except AttributeError as error:
            raise self._unknown_option(name, error) from error
        del self.said.errors[:]  # some getters log errors by themselves
        if members is None or not isinstance(value, str):
            return value
        if value not in members:
            raise NodeFailed(
                f"{self.product} raw.{name}: expected one of {', '.join(members)}, found {value!r}."
                f"{did_you_mean(value, members)}"
            )
        return members[value]

    def _unknown_option(self, name: str, error: Exception) -> NodeFailed:
        known = {word for word in dir(self.config) if not word.startswith("_")} - {name}
        known |= {*self.trt.BuilderFlag.__members__, *self.trt.MemoryPoolType.__members__}
        return NodeFailed(f"{self.product} refuses raw.{name}: {error}", did_you_mean(name, known).strip())


def lacking_types(precision: str, capabilities: Sequence[str]) -> str:
    """Why cards of these compute capabilities do not compute in the precision; empty when they do."""
    old = [each for each in capabilities if float(each) < _BFLOAT16_FROM]
    if precision == "bf16" and old:
        return f"compute capability {old[0]} has no bfloat16 (it begins with {_BFLOAT16_FROM})"
    return ""


def _is_echo(message: str) -> bool:
    """Whether it only says that there is no GPU, which follows other errors and causes none of them."""
    return "cudaError 35" in message
