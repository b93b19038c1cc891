"""The nodes of one recipe, each made when it is asked for.

A node says its `kind`; the kind's defaults in `conf/node/<kind>.yaml` are merged under it after composition,
so a recipe that changes the kind of a node inherits nothing from the former one. A mapping without `kind`
and `_target_` is a chain: its children are nodes, and it may carry `precision`, `shapes` and `backend` of its
own. Defaults reach the neighbours of their node as `${chain.<name>…}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mobuild import pins
from mobuild.config import given
from mobuild.config.backend import REST, chosen_backend
from mobuild.config.build_node import construct, texts
from mobuild.config.model_name import check_free, check_model, model_name
from mobuild.config.overrides import ONNX_RECIPE
from mobuild.config.project import Project, once
from mobuild.config.reading import NODE, conf_defaults, conf_file, conf_names, copied, plain, raw
from mobuild.config.recipes import own_recipes, recipe_file
from mobuild.config.settings import seconds
from mobuild.config.toolchain import chosen, refuse_unknown_keys
from mobuild.config.written import Written
from mobuild.errors import ConfigError, did_you_mean
from mobuild.fingerprint import digest_bytes
from mobuild.graph import NodeSpec
from mobuild.hardware import Hardware
from mobuild.libraries import PREFIXES
from mobuild.observers.environment import is_secret

_NAME = re.compile(r"[^\W.][^/\\.\0]*")
_TAKEN = ("run",)  # run.json stands beside the artifacts
_CHAIN_KEYS = ("precision", "shapes", "backend", *PREFIXES)
_PLACING = ("kind", "needs", "in", "given", "python", "timeout_seconds", "env")


class RecipeNodes:
    """The nodes of one recipe by name; each is made when it is asked for."""

    def __init__(
        self,
        app: DictConfig,
        choice: str,
        hardware: Hardware,
        project: Project,
        equals: dict[object, NodeSpec],
    ) -> None:
        """Resolves nodes inside `app`. `equals` is shared: nodes that are equal in several jobs become one object."""
        self.app, self.hardware, self.project, self._equals = app, hardware, project, equals
        file = recipe_file(project, choice)
        if choice == ONNX_RECIPE:
            # A model given on the command line is named after its file and lies where the user stands.
            check_model(app.model)
            self.recipe, self.root = model_name(app.model, Path.cwd(), project.root), Path.cwd()
            check_free(self.recipe, app.model, own_recipes(project))
            self.folder, self.lock = self.root, project.root / "recipes" / f"{self.recipe}.lock"
        else:
            assert file is not None, choice
            self.recipe, self.root, self.folder = choice, file.parent.parent, file.parent
            self.lock = file.with_suffix(".lock")
        self._scopes: dict[str, DictConfig] = {}
        self._placed: dict[tuple[str, bool], DictConfig] = {}
        self._entries: dict[str, tuple[str, DictConfig]] = {}
        self._specs: dict[str, NodeSpec] = {}
        self._texts: dict[str, Written] = {}
        self._said_by = {"onnx": "model=…"} if choice == ONNX_RECIPE else {}
        if not isinstance(app.nodes, DictConfig):
            raise ConfigError(f"recipe {self.recipe!r}: nodes is no mapping", "write nodes: {name: {kind: …}}")
        self._collect("", app.nodes)
        refuse_unknown_keys(app.toolchain, self._kinds(), is_open=any("." in kind for kind in self.kinds.values()))
        self.declared = tuple(self._entries)  # by the recipe; making nodes adds the files that their fields name

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._entries)

    @property
    def kinds(self) -> Mapping[str, str]:
        """Node → kind; the class of a node that has none. Nothing is made for it."""
        return {name: str(entry.get("kind") or entry.get("_target_")) for name, (_, entry) in self._entries.items()}

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
            _check_name(name, f"recipe {self.recipe!r}, node {name!r}")
            if not isinstance(entry, DictConfig):
                raise self._no_node(chain, name)
            if _has_kind(entry):
                self._entries[where] = (chain, entry)
            elif chain:
                raise ConfigError(
                    f"recipe {self.recipe!r}, node {where!r}: has no kind{self._near(where)}",
                    f"Kinds: {', '.join(self._kinds())}",
                )
            else:
                self._collect(where, entry)
                if not any(each.startswith(f"{where}.") for each in self._entries):
                    raise ConfigError(
                        f"recipe {self.recipe!r}, node {where!r}: has no kind, and as a chain no nodes"
                        f"{self._near(where)}",
                        "write kind: … in it, or drop it",
                    )

    def _no_node(self, chain: str, name: str) -> ConfigError:
        """An entry that is no mapping: a node without fields, or a field of a node that has no kind."""
        if chain:
            return ConfigError(
                f"recipe {self.recipe!r}, node {chain!r}: has no kind, so {name!r} is read as a node of a chain"
                f"{self._near(chain)}",
                f"write kind: … in it (kinds: {', '.join(self._kinds())}),\n"
                "or begin the recipe with the standard chain: defaults: [/recipe/standard, _self_]",
            )
        return ConfigError(
            f"recipe {self.recipe!r}: nodes.{name} is no mapping{self._near(name)}", "write kind: … and its fields"
        )

    def _near(self, name: str) -> str:
        """`. Did you mean 'engine'?` for the nearest node that the recipe has, or an empty string."""
        top = {str(key): entry for key, entry in self.app.nodes.items_ex(resolve=False)}
        known = {
            f"{chain}.{key!s}": entry
            for chain, inner in top.items()
            if isinstance(inner, DictConfig)
            for key, entry in inner.items_ex(resolve=False)
        }
        nodes = {each for each, entry in {**known, **top}.items() if _has_kind(entry)} - {name}
        near = did_you_mean(name, nodes) or did_you_mean(name.partition(".")[0], nodes)
        return f".{near}" if near else ""

    def _scope(self, chain: DictConfig) -> DictConfig:
        """The root config with the chain's own precision, shapes and backend in place."""
        scope = copied(self.app)
        for key in _CHAIN_KEYS:
            if key in chain:
                scope[key] = chain[key]
        return scope

    def spec(self, name: str) -> NodeSpec:
        if name not in self._specs:
            self._specs[name] = self._shared_spec(name)
        return self._specs[name]

    def _shared_spec(self, name: str) -> NodeSpec:
        """The node, or the equal one of another job of the command."""
        question = self._question(name)
        if question and question in self._equals:
            spec = self._equals[question]
            self._add_sources(name, spec.node)
            return spec
        spec = self._make_spec(name)
        equal = self._equals.setdefault(repr(spec), spec)
        spec = equal if equal == spec else spec
        if question:
            self._equals[question] = spec
        return spec

    def _question(self, name: str) -> str | None:
        """A digest of all that decides a node, as it is written: its entry, and what that refers to; None where nobody
        knows."""
        chain, entry = self._entries[name]
        scope = self._scopes[chain]
        said, defaults = str(raw(entry)), _text_of_defaults(self.project, str(entry.get("kind")))
        if "given" in entry or given.ENGINES in defaults or any(scope.get(key) for key in PREFIXES):
            return None
        elsewhere = self._texts.get(chain) or self._texts.setdefault(chain, Written(scope, self.project))
        further = ("secrets", "nodes") if given.EVALUATION in defaults else ("secrets",)
        referred = elsewhere.referred(said + self._toolchain + defaults, further)
        if referred is None:
            return None
        of_card = repr(self.hardware) if "backend" in referred or "hardware" in referred else ""
        own = str(self.folder), self.recipe, name, said, self._toolchain, self._said_by.get(name)
        return digest_bytes(repr((own, of_card, referred)).encode("utf-8", "surrogatepass"))

    @cached_property
    def _toolchain(self) -> str:
        return str(raw(self.app.toolchain))

    def _make_spec(self, name: str) -> NodeSpec:
        chain, entry = self._entries[name]
        where = f"recipe {self.recipe!r}, node {name!r}"
        merged = self._merged(entry, where)
        scope = self._place(chain, reads_backend="backend" in str(raw(merged)))
        scope[NODE] = merged
        fields = plain(scope, NODE, where)
        merged._set_parent(None)  # it is shared, and would keep this job's config
        placing = {key: fields.pop(key) for key in _PLACING if key in fields}
        if given.ENGINES in (placing.get("given") or ()):
            asked = {role: need for role, need in _asked(placing, where).items() if need}
            fields[given.ENGINES], placing[given.ENGINES] = given.engines(asked, chain, self.kinds, self.spec)
        if isinstance(fields.get("backend"), dict):
            fields["backend"].pop(REST, None)
        node = construct(fields, where)
        if pinned := getattr(node, "pinned", None):
            node = pinned(self._pins)
        if named := getattr(node, "named", None):
            node = named(self.recipe)
        place = chosen(scope.toolchain, placing.get("python"), node, self.project.root, where)
        return NodeSpec(
            name=name,
            node=node,
            needs=self._needs(name, placing, node, scope),
            folder=self.folder,
            root=self.root,
            python=place.python,
            requirements=place.requirements,
            container=place.container,
            timeout_seconds=seconds(placing.get("timeout_seconds"), f"{where}, field 'timeout_seconds'"),
            env=_env(placing.get("env"), node, where, list(self.app.secrets or ())),
            said_by=self._said_by.get(name, f"nodes.{name}.uri in the recipe"),
        )

    def _place(self, chain: str, reads_backend: bool) -> DictConfig:
        """Where the nodes of `chain` are resolved, one after the other; with a backend only for those that read it,
        since having none is an error."""
        key = chain, reads_backend
        if key not in self._placed:
            place = self._scopes[chain]
            if reads_backend:
                place = copied(place)
                place.backend = chosen_backend(place, self.project, self.hardware)
            place._set_flag("no_deepcopy_set_nodes", True)
            # What lies in the same config would be copied all the same, so the nodes at the top are referred to.
            place.chain = OmegaConf.merge(place.nodes, place.nodes[chain]) if chain else "${nodes}"
            self._placed[key] = place
        return self._placed[key]

    def _needs(self, name: str, placing: Mapping[str, Any], node: Any, scope: DictConfig) -> dict[str, str]:
        """Role → node; `in` is another word for `needs`, and null takes a default away.

        `given` says which native libraries of the recipe or its chain the kind loads.

        Files that a node's own parameters name become source nodes, called after the node and the role.
        """
        where = f"recipe {self.recipe!r}, node {name!r}"
        wanted = placing.get("given") or ()
        roles = {**given.libraries(wanted, scope), **placing.get(given.ENGINES, {})}
        if given.EVALUATION in wanted:
            roles |= given.evaluation(node.cmd, scope, partial(conf_defaults, self.project, "node"))
        roles |= _asked(placing, where)
        roles |= self._add_sources(name, node)
        unneeded = getattr(node, "unneeded", ())
        needs = {str(role): str(need) for role, need in roles.items() if need and role not in unneeded}
        try:
            getattr(node, "check_roles", lambda _: None)(needs)
            getattr(node, "check_code", lambda *_: None)(self.folder, self.root)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", error.hint) from error
        return needs

    def _add_sources(self, name: str, node: Any) -> dict[str, str]:
        """Role → the source node that a file which the node's own parameters name becomes."""
        roles: dict[str, str] = {}
        for role, uri in getattr(node, "sources", {}).items():
            if getattr(node, "is_beside_recipe", False):
                uri = str(self.folder.relative_to(self.root) / uri)
            roles[role] = f"{name}.{role}"
            self._said_by[roles[role]] = getattr(node, "said_by", f"{role}: of node {name!r}")
            self._entries[roles[role]] = ("", OmegaConf.create({"kind": "source", "uri": uri}))
        return roles

    def _merged(self, entry: DictConfig, where: str) -> DictConfig:
        """The entry over the defaults of its kind, as written: shared by the jobs that write the same."""
        said = raw(entry)
        if any("${" in str(said.get(key)) for key in ("kind", "needs")):  # what it says decides what is merged
            return self._with_defaults(entry, where)
        question = ("merged", str(said))
        if question not in self.project.known:
            self.project.known[question] = self._with_defaults(entry, where)
        merged: DictConfig = self.project.known[question]
        return merged

    def _with_defaults(self, entry: DictConfig, where: str) -> DictConfig:
        kind = entry.get("kind")
        if kind is None and entry.get("_target_"):
            return entry.copy()
        if kind is None:
            raise ConfigError(f"{where}: has no kind", f"Kinds: {', '.join(self._kinds())}")
        defaults = conf_defaults(self.project, "node", str(kind))
        if defaults is None:
            known = self._kinds()
            raise ConfigError(
                f"{where}: there is no kind {kind!r}.{did_you_mean(str(kind), known)}", f"Kinds: {', '.join(known)}"
            )
        if isinstance(entry.get("needs"), ListConfig):
            given.roles({"needs": list(entry.needs)}, "needs", where)
        try:
            merged = OmegaConf.merge(defaults, entry)
        except OmegaConfBaseException as error:
            text = str(error).partition("\n")[0]
            file = conf_file(self.project, "node", str(kind))
            raise ConfigError(f"{where}: does not fit the defaults of kind {kind!r}: {text}", str(file)) from error
        assert isinstance(merged, DictConfig)
        if "needs" in entry and not entry.needs:
            merged.needs = {}  # `needs: {}` takes the defaults away; merging would keep them
        return merged

    def _kinds(self) -> list[str]:
        return conf_names(self.project, "node")


def _has_kind(entry: Any) -> bool:
    return isinstance(entry, DictConfig) and ("kind" in entry or "_target_" in entry)


@once
def _text_of_defaults(project: Project, kind: str) -> str:
    return str(conf_defaults(project, "node", kind))


def _check_name(name: str, where: str) -> None:
    """Names become file names, and a dot stands between a chain and its nodes."""
    if not _NAME.fullmatch(name) or name in _TAKEN:
        why = "is taken by run.json" if name in _TAKEN else "cannot be a file's name"
        raise ConfigError(f"{where}: the name {why}", "begin with a letter; no '.', '/' or '\\'")


def _asked(placing: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Role → node, of both words for it."""
    return {**given.roles(placing, "needs", where), **given.roles(placing, "in", where)}


def _env(configured: Any, node: Any, where: str, secrets: Sequence[str]) -> dict[str, str | None]:
    """The variables that a node declares: text, or null for one that must not be set."""
    variables = texts(configured, f"{where}, field 'env'")
    if variables and not node.isolated:
        raise ConfigError(f"{where}: env: kind {node.kind!r} reads no variables of yours", "leave it out")
    for name in variables:
        if is_secret(name, secrets):
            raise ConfigError(
                f"{where}: env: {name!r} is a secret by its name, and the values of env are written down",
                "leave it out: secrets are passed on as they are, and never enter a key",
            )
        if name == "PYTHONPATH" and not getattr(node, "cmd", ""):
            raise ConfigError(
                f"{where}: env: 'PYTHONPATH' is read when a Python starts, and this node's code is loaded later",
                "modules are found beside the recipe, in the project, in its src/, and in the interpreter's packages:\n"
                "pip install -e . into that interpreter; or PYTHONPATH=… mobuild …",
            )
    return variables
