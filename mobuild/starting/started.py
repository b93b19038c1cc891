"""What to write for a model's file: the recipe first, and the Python beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from mobuild.adopt.place import Place
from mobuild.adopt.recipe import flow
from mobuild.errors import ConfigError, SourceError
from mobuild.starting import classes, loaders, onnx_file, recipe
from mobuild.starting.classes import Class
from mobuild.starting.contents import Network, Pickled, Weights, look
from mobuild.starting.guesses import guessed
from mobuild.starting.recipe import Content
from mobuild.starting.tensors import Input

_WRAPPERS = ("module.", "_orig_mod.", "model.", "net.", "network.")  # what trainers put before the names of weights
_ALWAYS_OFF = ("module.", "_orig_mod.")


@dataclass(frozen=True)
class Started:
    """`files` are what to write, by path below the project's root. `notes` tell what was guessed, `todo` what to fill
    in before it builds. Of a remote one, `finish` says what to write instead, once the node `reads` is there."""

    name: str
    files: Mapping[str, str]
    notes: Sequence[str] = ()
    todo: str = ""
    is_remote: bool = False
    reads: str = ""
    finish: Callable[[Path], Started] | None = None


def start(path: Path, place: Place, name: str) -> Started:
    """What to write for the file or folder at `path`; nothing is written yet.

    Raises:
        SourceError: it is not there, or no file that a recipe can begin with; says what it is.
        NodeFailed, ToolchainError: an ONNX file that cannot be read, or not here.
    """
    shown = str(path)
    file = place.file(shown)
    if not file.exists():
        raise SourceError(
            f"init: {shown}: there is no such file in {place.here}", "mobuild init NAME begins without one"
        )
    if onnx_file.is_one(file):
        content = onnx_file.content(file, name, place.uri(shown))
        return Started(name, {f"recipes/{name}.yaml": recipe.text(content)}, _outside(place, shown))
    if file.is_dir():
        raise SourceError(
            f"init: {shown}: is a folder without one ONNX file in it", "name a file: mobuild init weights.pt"
        )
    started = of_contents(file, name, place.uri(shown), free_module(name, place.root), place.root)
    return replace(started, notes=(*_outside(place, shown), *started.notes))


def of_contents(file: Path, name: str, uri: str, module: str, root: Path) -> Started:
    """What to write for a file of torch or safetensors, which the recipe knows as `uri`.

    Raises:
        SourceError: it is none.
    """
    found = look(file, uri)
    if isinstance(found, Network):
        return _of_network(found, name, uri, module)
    if isinstance(found, Pickled):
        return _of_pickle(found, name, uri, module)
    return _of_weights(found, name, uri, module, root)


def free_module(name: str, root: Path) -> str:
    """A name for the Python file beside the recipe that hides no module of the project's or of Python's."""
    for each in (name, f"{name}_loader"):
        places = [root / f"{each}.py", root / each / "__init__.py", root / "recipes" / f"{each}.py"]
        if not any(path.exists() for path in places) and find_spec(each) is None:
            return each
    raise ConfigError(
        f"init: {root / 'recipes' / f'{name}_loader.py'} is there already", f"another name: mobuild init {name}_2 FILE"
    )


def _of_network(found: Network, name: str, uri: str, module: str) -> Started:
    what = "an exported program" if found.form == "program" else "TorchScript"
    onnx = [f'model: "{module}.py:load"']
    if found.form == "script":
        onnx.append(recipe.noted("exporter: torchscript", "the other one, dynamo, takes no TorchScript"))
    content = Content(name, f"Begins at {uri}: {what}.", [_weights(uri)], onnx, found.inputs)
    files = {f"recipes/{module}.py": loaders.of_network(name, uri, found)}
    return Started(name, {f"recipes/{name}.yaml": recipe.text(content), **files}, _guesses(found.inputs))


def _of_pickle(found: Pickled, name: str, uri: str, module: str) -> Started:
    place = f"recipes/{module}.py"
    inputs = [Input("x", ("batch", 8), note="write yours")]
    content = Content(name, f"Begins at {uri}: a pickled {found.cls}.", [_weights(uri)], _onnx(module), inputs)
    notes = [
        f"{uri} is a pickled {found.cls}, which only torch.load(…, weights_only=False) reads: that runs code in it",
        f"recipes/{name}.yaml: nothing in the file tells the inputs: write them",
    ]
    files = {place: loaders.of_pickle(name, uri, place, found)}
    return Started(name, {f"recipes/{name}.yaml": recipe.text(content), **files}, notes, f"fill in load() in {place}")


def _of_weights(found: Weights, name: str, uri: str, module: str, root: Path) -> Started:
    place = f"recipes/{module}.py"
    cls, prefix, others = _class_for(found, root)
    names = [each.removeprefix(prefix) for each in found.tensors]
    tensors = dict(zip(names, found.tensors.values(), strict=True))
    if cls:
        order = {part: i for i, part in enumerate(cls.parts)}
        tensors = dict(sorted(tensors.items(), key=lambda each: order.get(each[0].partition(".")[0], 0)))
    inputs = guessed(cls.takes if cls and cls.takes else ["x"], tensors)
    content = Content(name, f"Begins at {uri}: {told(found)}.", [_weights(uri)], _onnx(module), inputs)
    text = loaders.of_weights(name, uri, place, replace(found, tensors=tensors), prefix, cls)
    notes = [*_of_class(cls, others, root), *_guesses(inputs)]
    if found.key:
        notes.insert(0, f"{uri} is a checkpoint: its weights are {found.key!r}, beside {', '.join(found.others[:6])}")
    if found.strangers:
        notes.append(
            f"{place}: weights_only=True refuses the {', '.join(found.strangers[:3])} that the file holds as well"
        )
    files = {f"recipes/{name}.yaml": recipe.text(content), place: text}
    return Started(name, files, notes, "" if loaders.is_complete(cls) else f"fill in network() in {place}")


def told(found: Weights) -> str:
    """How many tensors and numbers there are, for people."""
    count = sum(math.prod(each.shape) for each in found.tensors.values())
    return f"{len(found.tensors)} tensors, {_large(count)} numbers"


def _large(count: int) -> str:
    for unit, size in (("billion", 10**9), ("million", 10**6), ("thousand", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)


def _class_for(found: Weights, root: Path) -> tuple[Class | None, str, list[Class]]:
    """The network of the project that these weights fit, what to take off their names for it, and others that fit."""
    names = list(found.tensors)
    wrapped = next((each for each in _WRAPPERS if all(name.startswith(each) for name in names)), "")
    for prefix in dict.fromkeys((wrapped, "")):
        fitting = classes.matching(root, [name.removeprefix(prefix) for name in names], root / "recipes")
        if fitting:
            return fitting[0], prefix, fitting[1:]
    is_off = wrapped in _ALWAYS_OFF or any("lightning" in each for each in found.others)
    return None, wrapped if is_off else "", []


def _of_class(cls: Class | None, others: Sequence[Class], root: Path) -> list[str]:
    if not cls:
        return ["no class of this project has parts with the names of these weights"]
    place = cls.file.relative_to(root)
    more = f" (so do {', '.join(each.name for each in others[:3])})" if others else ""
    needs = f"; it needs {', '.join(cls.needed)}" if cls.needed else ""
    return [f"class {cls.name} of {place} has parts with the names of these weights{more}{needs}"]


def _onnx(module: str) -> list[str]:
    return [recipe.noted(f'model: "{module}.py:load"', "beside this file; returns the network with its weights")]


def _weights(uri: str) -> str:
    return recipe.noted(f"weights: {{uri: {flow(uri)}}}", "a path from the project's folder; or s3://… https://… hf:…")


def _guesses(inputs: Collection[Input]) -> list[str]:
    return [
        f"input {each.name!r} {list(each.shape)}: {each.note}"
        for each in inputs
        if re.match("guess|nothing", each.note)
    ]


def _outside(place: Place, shown: str) -> tuple[str, ...]:
    uri = place.uri(shown)
    if not Path(uri).is_absolute():
        return ()
    return (f"{uri} lies outside the project: nobody else has it there; copy it to {place.root}, or name an address",)
