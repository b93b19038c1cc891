"""From one composed config to one frozen job: its graph, its variant, its hardware.

A node of a recipe says its `kind`; the kind's defaults in `conf/node/<kind>.yaml` are merged under it after
composition, so a recipe that changes the kind of a node inherits nothing from the former one. A mapping
without `kind` and `_target_` is a chain: its children are nodes, and it may carry `precision`, `shapes` and
`backend` of its own. `backend: auto` is decided here, by configuration alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mobuild import pins
from mobuild.config.build_node import construct
from mobuild.config.overrides import ONNX_RECIPE
from mobuild.config.project import Project, shipped
from mobuild.config.recipes import SHAPES_CHOICE, read_yaml, recipe_file
from mobuild.config.variant import variant_name
from mobuild.contract.rules import Request, check
from mobuild.errors import ConfigError, Refused, did_you_mean
from mobuild.graph import Graph, NodeSpec, build_graph
from mobuild.hardware import Hardware
from mobuild.job import Job, Settings

_CHAIN_KEYS = ("precision", "shapes", "backend")
_PLACING = ("kind", "needs", "in", "python", "timeout_seconds")


def make_job(config: DictConfig, project: Project) -> Job:
    """The job that `config` (with its `hydra` node) describes.

    Raises:
        ConfigError, GraphError: the request cannot be understood; names recipe, node and key.
    """
    overrides = tuple(config.hydra.overrides.task)
    app = _application(config, overrides)
    catalogue = _catalogue(config, project)
    graph = _graph(catalogue)
    return Job(
        recipe=catalogue.recipe,
        variant=variant_name(config, graph, overrides, lambda other: _graph(_catalogue(other, project))),
        root=catalogue.root,
        graph=graph,
        hardware=catalogue.hardware,
        lock=catalogue.lock,
        overrides=overrides,
        settings=_settings(app, project),
    )


def _catalogue(config: DictConfig, project: Project) -> _Catalogue:
    return _Catalogue(_application(config, config.hydra.overrides.task), _choices(config), project)


def _graph(catalogue: _Catalogue) -> Graph:
    targets = catalogue.app.target
    return build_graph(catalogue, [str(one) for one in (targets if isinstance(targets, ListConfig) else [targets])])


def _choices(config: DictConfig) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in config.hydra.runtime.choices.items()}


def _application(config: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """The config without its `hydra` node, with a chosen shapes file in place."""
    app = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    _choose_shapes(app, overrides)
    return app


def _settings(app: DictConfig, project: Project) -> Settings:
    return Settings(
        cache=project.cache(app.cache.dir),
        build=project.build,
        project=project.root,
        strict=bool(app.cache.strict),
        keep_going=bool(app.keep_going),
        format=str(app.format),
        slots=app.executor.slots,
        timeout_seconds=app.executor.timeout_seconds,
    )


def _choose_shapes(app: DictConfig, overrides: Sequence[str]) -> None:
    """A chosen shapes file replaces the recipe's `shapes`; keys of it cannot be set beside the choice."""
    chosen = app.get(SHAPES_CHOICE)
    if chosen is None:
        return
    mixed = [word for word in overrides if word.lstrip("+").startswith("shapes.")]
    if mixed:
        raise ConfigError(
            f"{mixed[0].lstrip('+')} beside shapes=NAME: the chosen file replaces the shapes whole", "drop one of them"
        )
    app.shapes = chosen


def _hardware(app: DictConfig, choices: Mapping[str, str]) -> Hardware:
    name = choices.get("hardware")
    fields = {"_target_": "mobuild.hardware.Hardware", **_plain(app, "hardware", f"hardware {name!r}")}
    hardware = construct(fields, f"conf/hardware/{name}.yaml")
    assert isinstance(hardware, Hardware)
    return hardware


class _Catalogue:
    """The nodes of one recipe by name; each is made when it is asked for."""

    def __init__(self, app: DictConfig, choices: Mapping[str, str], project: Project) -> None:
        self.app, self.project = app, project
        self.hardware = _hardware(app, choices)
        choice = choices.get("recipe", "")
        file = recipe_file(project, choice)
        if choice == ONNX_RECIPE:
            # A model given on the command line is named after its file and lies where the user stands.
            self.recipe, self.root = Path(str(app.model)).stem, Path.cwd()
            self.folder, self.lock = self.root, project.root / "recipes" / f"{self.recipe}.lock"
        else:
            assert file is not None, choice
            self.recipe, self.root, self.folder = choice, file.parent.parent, file.parent
            self.lock = file.with_suffix(".lock")
        self._scopes: dict[str, DictConfig] = {}
        self._entries: dict[str, tuple[str, DictConfig]] = {}
        self._specs: dict[str, NodeSpec] = {}
        self._collect("", app.nodes)

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._entries)

    @cached_property
    def _pins(self) -> Mapping[str, Any]:
        return pins.read(self.lock)

    def _collect(self, chain: str, entries: DictConfig) -> None:
        self._scopes[chain] = self.app if not chain else self._scope(entries)
        for key, entry in entries.items_ex(resolve=False):
            name = str(key)
            if chain and name in _CHAIN_KEYS:
                continue
            where = f"{chain}.{name}".lstrip(".")
            if not isinstance(entry, DictConfig):
                raise ConfigError(
                    f"recipe {self.recipe!r}: nodes.{where} is no mapping", "write kind: … and its fields"
                )
            if "kind" in entry or "_target_" in entry:
                self._entries[where] = (chain, entry)
            elif chain:
                raise ConfigError(
                    f"recipe {self.recipe!r}, node {where!r}: has no kind", f"Kinds: {', '.join(self._kinds())}"
                )
            else:
                self._collect(where, entry)

    def _scope(self, chain: DictConfig) -> DictConfig:
        """The root config with the chain's own precision, shapes and backend in place."""
        scope = self.app.copy()
        for key in _CHAIN_KEYS:
            if key in chain:
                scope[key] = chain[key]
        return scope

    def spec(self, name: str) -> NodeSpec:
        if name not in self._specs:
            self._specs[name] = self._make_spec(name)
        return self._specs[name]

    def _make_spec(self, name: str) -> NodeSpec:
        chain, entry = self._entries[name]
        where = f"recipe {self.recipe!r}, node {name!r}"
        merged = self._with_defaults(entry, where)
        scope = self._scopes[chain].copy()
        if "backend" in OmegaConf.to_yaml(merged):
            scope.backend = _backend(scope, self.project, self.hardware)
        scope[_NODE] = merged
        fields = _plain(scope, _NODE, where)
        placing = {key: fields.pop(key) for key in _PLACING if key in fields}
        node = construct(fields, where)
        if pinned := getattr(node, "pinned", None):
            node = pinned(self._pins)
        return NodeSpec(
            name=name,
            node=node,
            needs=self._needs(name, placing, node),
            folder=self.folder,
            root=self.root,
            python=self._python(placing.get("python", scope.toolchain.python), node),
            timeout_seconds=placing.get("timeout_seconds"),
        )

    def _needs(self, name: str, placing: Mapping[str, Any], node: Any) -> dict[str, str]:
        """Role → node; `in` is another word for `needs`, and null takes a default away.

        Files that a node's own parameters name become source nodes, called after the node and the role.
        """
        roles = {**(placing.get("needs") or {}), **(placing.get("in") or {})}
        for role, uri in getattr(node, "sources", {}).items():
            roles[role] = f"{name}.{role}"
            self._entries[roles[role]] = ("", OmegaConf.create({"kind": "source", "uri": uri}))
        unneeded = getattr(node, "unneeded", ())
        return {str(role): str(need) for role, need in roles.items() if need and role not in unneeded}

    def _with_defaults(self, entry: DictConfig, where: str) -> DictConfig:
        kind = entry.get("kind")
        if kind is None:
            return entry
        file = _conf_file(self.project, "node", str(kind))
        if file is None:
            known = self._kinds()
            raise ConfigError(
                f"{where}: there is no kind {kind!r}.{did_you_mean(str(kind), known)}", f"Kinds: {', '.join(known)}"
            )
        merged = OmegaConf.merge(read_yaml(file), entry)
        assert isinstance(merged, DictConfig)
        return merged

    def _kinds(self) -> list[str]:
        return _conf_names(self.project, "node")

    def _python(self, configured: Any, node: Any) -> Path | None:
        """The interpreter for a node; only isolated kinds (user code, builders) leave mobuild's own."""
        if not configured or not node.isolated:
            return None
        path = Path(str(configured)).expanduser()
        return path if path.is_absolute() else self.project.root / path


_NODE = "_node_"


def _backend(scope: DictConfig, project: Project, hardware: Hardware) -> DictConfig:
    """The chosen backend with the defaults of its file; `auto` takes the first that hardware and builders share.

    Raises:
        ConfigError: there is no such backend.
        ToolchainError: hardware and builders share none; both lists are named.
    """
    chosen = scope.backend if isinstance(scope.backend, DictConfig) else OmegaConf.create({"name": scope.backend})
    own = {key: value for key, value in chosen.items_ex(resolve=False) if key != "name"}
    if "_target_" in own:
        return chosen
    name = str(chosen.get("name", "auto"))
    if name == "auto":
        name = choose_backend(hardware, list(scope.builders))
    file = _conf_file(project, "backend", name)
    if file is None:
        known = _conf_names(project, "backend")
        raise ConfigError(f"there is no backend {name!r}.{did_you_mean(name, known)}", f"Backends: {', '.join(known)}")
    merged = OmegaConf.merge(read_yaml(file), own)
    assert isinstance(merged, DictConfig)
    return merged


def choose_backend(hardware: Hardware, builders: Sequence[str]) -> str:
    """The first of the hardware's backends that is among the project's builders.

    Raises:
        Refused: none is; both lists are named, and what the contracts say of the hardware's own.
    """
    for name in hardware.backends:
        if name in builders:
            return name
    known = [finding for name in hardware.backends for finding in check(Request(hardware, name))]
    reasons = [f"{finding.code}: {finding.message}" for finding in known if finding.severity == "error"]
    raise Refused(
        f"hardware {hardware.name!r}: none of its backends [{', '.join(hardware.backends)}] is among the builders "
        f"[{', '.join(builders)}]",
        "\n".join([*reasons, "name one with backend=…, or set builders=[…] in conf/project/default.yaml"]),
    )


def _conf_file(project: Project, group: str, name: str) -> Path | None:
    folders = [project.conf, shipped("conf")]
    found = (folder / group / f"{name}.yaml" for folder in folders if folder)
    return next((path for path in found if path.is_file()), None)


def _conf_names(project: Project, group: str) -> list[str]:
    folders = [folder / group for folder in (project.conf, shipped("conf")) if folder]
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def _plain(config: DictConfig, key: str, where: str) -> dict[str, Any]:
    """`config[key]` as plain values, interpolations resolved.

    Raises:
        ConfigError: an interpolation points nowhere, or a `???` was never filled.
    """
    try:
        value = OmegaConf.to_container(config[key], resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        text = str(error).splitlines()[0].replace(f"{_NODE}.", "")
        raise ConfigError(f"{where}: {text}") from error
    assert isinstance(value, dict)
    return {str(name): item for name, item in value.items()}
