"""The recipe that begins at a repository of Hugging Face's hub, pinned by its commit, or at a folder like one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from mobuild.adopt.place import Place
from mobuild.adopt.recipe import flow
from mobuild.errors import SourceError
from mobuild.fetch.taken import Listed
from mobuild.starting import bert, onnx_file, recipe, transformer
from mobuild.starting.guesses import sizes
from mobuild.starting.recipe import Content, noted
from mobuild.starting.repository import Repository, in_a_folder, on_the_hub
from mobuild.starting.started import Started, free_module, of_contents
from mobuild.starting.started import start as start_file
from mobuild.starting.tensors import Input

_ONNX = ("onnx/model.onnx", "model.onnx")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SHARDS = "model.safetensors.index.json"
_LOADED = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pt2", ".ts")
_TRANSFORMERS = "transformers safetensors"


def start(word: str, name: str, root: Path) -> Started:
    """What to write for a repository, or one file of it; only small files are read.

    Raises:
        ConfigError: the word names no repository.
        SourceError: it cannot be listed, or holds nothing that a recipe can begin with.
    """
    repository, asked = on_the_hub(word)
    file = asked or _chosen(repository)
    if file not in repository.files:
        listed = _listed(repository.files)
        raise SourceError(f"init: {word}: there is no such file in {repository.name}", f"Files: {listed}")
    if file.endswith(".onnx"):
        return _of_onnx(repository, file, name, is_chosen=not asked)
    return _of_weights(repository, file, name, root)


def start_folder(path: Path, place: Place, name: str) -> Started:
    """What to write for such a folder.

    Raises:
        SourceError: it holds nothing that a recipe can begin with.
    """
    repository = in_a_folder(path, place)
    file = _chosen(repository)
    if file.endswith(".onnx"):
        return start_file(path / file, place, name)
    started = _of_weights(repository, file, name, place.root)
    return started.finish(place.file(str(path / file))) if started.finish else replace(started, is_remote=False)


def _chosen(repository: Repository) -> str:
    """The file to begin at: a published ONNX, which builds as it is, else the weights."""
    files = repository.files
    models = [*_ONNX, *_only(files, (".onnx",))]
    for file in [*(each for each in models if not _has_data(files, each)), *_WEIGHTS]:
        if file in files:
            return file
    if _SHARDS in files:
        raise SourceError(
            f"init: {repository.name}: its weights are in several files ({_SHARDS})",
            f"write the recipe by hand: mobuild init NAME; weights: {{uri: {repository.uri('')}}} "
            "is a folder of all its files",
        )
    for file in _only(files, (".safetensors",)) or _only(files, _LOADED):
        return file
    raise SourceError(
        f"init: {repository.name}: has neither one ONNX file nor weights of PyTorch: {_listed(files)}",
        "GGUF is for llama.cpp: name the repository that it was made of"
        if any(file.endswith(".gguf") for file in files)
        else f"name one: mobuild init {repository.name}/FILE",
    )


def _only(files: Mapping[str, Listed], suffixes: Sequence[str]) -> list[str]:
    found = [file for file in files if file.endswith(tuple(suffixes))]
    return found if len(found) == 1 else []


def _has_data(files: Mapping[str, Listed], model: str) -> bool:
    """Whether its weights lie in a file beside it, which a single file cannot bring along."""
    return any(other.startswith((f"{model}_data", f"{model}.data")) for other in files)


def _listed(files: Mapping[str, Listed]) -> str:
    return ", ".join(sorted(files)[:12]) + (" …" if len(files) > 12 else "")


def _of_onnx(repository: Repository, file: str, name: str, is_chosen: bool) -> Started:
    uri = repository.uri(file)
    line = noted(f"onnx: {{kind: source, uri: {flow(uri)}}}", repository.size(file))
    first = Content(name, f"Begins at {uri}: ONNX.", [line], shapes={})
    place = f"recipes/{name}.yaml"
    others = [each for each in _WEIGHTS if each in repository.files]
    instead = f"; at its weights: mobuild init {repository.name}/{others[0]}" if is_chosen and others else ""
    notes = [f"begins at {file}, which {repository.name} publishes{instead}"]

    def finish(path: Path) -> Started:
        content = onnx_file.content(path, name, uri)
        lines = [line, *content.sources[1:]]
        return Started(name, {place: recipe.text(replace(content, sources=lines))}, notes)

    return Started(name, {place: recipe.text(first)}, reads="onnx", finish=finish, is_remote=True)


def _of_weights(repository: Repository, file: str, name: str, root: Path) -> Started:
    config = repository.document("config.json")
    config = config if isinstance(config, Mapping) else {}
    module = free_module(name, root)
    if file.endswith(".safetensors") and bert.fits(config):
        return _of_bert(repository, file, name, module, config)
    found = transformer.known(config)
    if found and PurePosixPath(file).name in _WEIGHTS:
        return _of_transformer(repository, file, name, module, found, config)
    uri = repository.uri(file)
    onnx, inputs = [f'model: "{module}.py:load"'], [Input("x", ("batch", 8))]
    first = Content(name, f"Begins at {uri}.", [_source("weights", repository, file)], onnx, inputs)

    def finish(path: Path) -> Started:
        return of_contents(path, name, uri, module, root)

    recipes = {f"recipes/{name}.yaml": recipe.text(first)}
    return Started(name, recipes, reads="weights", finish=finish, is_remote=True)


def _of_bert(repository: Repository, file: str, name: str, module: str, config: Mapping[str, Any]) -> Started:
    pooled, width = _pooled(repository), config["hidden_size"]
    inputs = transformer.text_inputs(config["vocab_size"])
    outputs = f"{{embedding: [batch, {width}]}}" if pooled else f"{{last_hidden_state: [batch, sequence, {width}]}}"
    onnx = [noted(f'model: "{module}.py:load"', "the network, written out beside this file"), f"outputs: {outputs}"]
    head = f"Begins at {repository.uri(file)}: BertModel."
    content = Content(
        name,
        head,
        [_source("weights", repository, file)],
        onnx,
        inputs,
        (),
        "'mobuild[recipes]'",
        _shapes(inputs, config),
    )
    text = bert.module(repository.name, file, config, pooled)
    files = {f"recipes/{name}.yaml": recipe.text(content), f"recipes/{module}.py": text}
    return Started(
        name, files, [f"recipes/{module}.py has the network written out: no transformers needed"], is_remote=True
    )


def _pooled(repository: Repository) -> str:
    """How sentence-transformers makes one vector of all states; empty when it does not."""
    pooling, modules = repository.document("1_Pooling/config.json"), repository.document("modules.json")
    if not isinstance(pooling, Mapping) or not pooling.get("pooling_mode_mean_tokens"):
        return ""
    kinds = (
        [str(each.get("type")) for each in modules if isinstance(each, Mapping)] if isinstance(modules, list) else []
    )
    return "normalised" if any(kind.endswith("Normalize") for kind in kinds) else "mean"


def _of_transformer(
    repository: Repository, file: str, name: str, module: str, found: transformer.Known, config: Mapping[str, Any]
) -> Started:
    onnx = [
        noted(f'model: "{module}.py:load"', "in the Python that mobuild runs in, or toolchain.python=…"),
        "needs: {config: config}",
        f"outputs: {flow(list(found.outputs))}",
    ]
    head = f"Begins at {repository.uri(file)}: {found.cls}."
    content = Content(
        name,
        head,
        list(_sources(repository, file)),
        onnx,
        found.inputs,
        requires=_TRANSFORMERS,
        shapes=_shapes(found.inputs, config),
    )
    notes = [f"{found.cls} is loaded through transformers: pip install {_TRANSFORMERS}"]
    if found.is_generating:
        notes.append("its logits are exported without a cache of keys and values, which generating text wants")
    text = transformer.module(repository.name, PurePosixPath(file).name, found)
    return Started(
        name, {f"recipes/{name}.yaml": recipe.text(content), f"recipes/{module}.py": text}, notes, is_remote=True
    )


def _shapes(inputs: Sequence[Input], config: Mapping[str, Any]) -> dict[str, Any]:
    found = sizes(inputs)
    return {**found, "sequence": transformer.lengths(config)} if "sequence" in found else found


def _sources(repository: Repository, file: str) -> Iterator[str]:
    yield _source("weights", repository, file)
    yield _source("config", repository, "config.json", "kind: source, ")


def _source(node: str, repository: Repository, file: str, kind: str = "") -> str:
    return noted(f"{node}: {{{kind}uri: {flow(repository.uri(file))}}}", repository.size(file))
