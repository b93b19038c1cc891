"""A line, the model that it names and the folder that it is typed in: the recipe, and what to say of each flag."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mobuild import onnxmodel
from mobuild.adopt import line as lines
from mobuild.adopt import onnxsim, polygraphy, precision, quantization, recipe, scales, shapes, trtexec
from mobuild.adopt.line import Line
from mobuild.adopt.place import Place, checked_name, named_after
from mobuild.adopt.precision import Precision
from mobuild.adopt.scales import Scales
from mobuild.adopt.wishes import Flag, Wishes
from mobuild.errors import ConfigError, SourceError, ToolchainError
from mobuild.facts.releases import release

_SAVING = ("--saveEngine", "--save-engine", "-o")


@dataclass(frozen=True)
class Adopted:
    """`files` are what to write, by path below the project's root; the recipe is the first."""

    name: str
    tool: str
    version: str
    target: str
    flags: Sequence[Flag]
    warnings: Sequence[str]
    notes: Sequence[str]
    files: Mapping[str, str]

    @property
    def recipe(self) -> str:
        return next(iter(self.files))


def adopt(
    words: Sequence[str],
    place: Place,
    version: str = "",
    name: str = "",
    taken: Collection[str] = (),
    hardware: str = "l4",
) -> Adopted:
    """What to write for a line; nothing is written yet. `version` is the TensorRT of the line (empty: the newest that
    is known), `name` the recipe's (empty: the model's), `taken` are names that it must not have, `hardware` is what the
    recipe's own comment builds it for.

    Raises:
        ConfigError: the line cannot be understood, or does not fit its model; or there is such a recipe already.
        SourceError: a file that it names is not there.
    """
    line = lines.read(words)
    wishes = _read(line, version or release("tensorrt").version)
    model = place.file(wishes.model)
    name = checked_name(name or named_after(wishes.model), place.root, taken)
    if not model.is_file():
        raise SourceError(
            f"adopt: {wishes.model}: there is no such file in {place.here}",
            place.maker(wishes.model)
            or "paths start at this folder; a recipe names the axes of the file, so make it first",
        )
    summary = _summary(model)
    _place_shapes(wishes, summary)
    sizes, missing = shapes.by_axis(wishes.profiles, wishes.shapes, summary)
    table = _scales(wishes, place, model)
    made = precision.decide(wishes, summary["quantize_nodes"] > 0, table)
    content = _content(line, wishes, made, place, name, bool(version))
    files = {f"recipes/{name}.yaml": ""}
    if made.takes_ranges and table:
        files[f"recipes/{name}.ranges.json"] = table.ranges()
        content = replace(content, nodes={**content.nodes, **_ranges(name, made, content.nodes)})
    if line.tool == "trtexec":
        trtexec.say_versions(wishes)
    is_lossy = any(flag.verdict == "lost" and "R15" not in flag.note for flag in wishes.flags)
    content = replace(content, shapes=sizes, is_lossy=is_lossy and bool(content.product), hardware=hardware)
    files[f"recipes/{name}.yaml"] = recipe.text(content)
    return Adopted(
        name=name,
        tool=line.tool,
        version=wishes.version if content.product == "tensorrt" else "",
        target=wishes.target,
        flags=tuple(wishes.flags),
        warnings=(*wishes.warnings, *_without_size(missing, content)),
        notes=(*_around(line), *wishes.notes, *_of_builder(wishes, content)),
        files=files,
    )


def _read(line: Line, version: str) -> Wishes:
    if line.tool == "trtexec":
        return trtexec.read(line.arguments, version)
    if line.tool.startswith("polygraphy"):
        rtx = line.variables.get("POLYGRAPHY_USE_TENSORRT_RTX", "0") not in ("0", "")
        return polygraphy.read(line.tool, line.arguments, version, rtx)
    if line.tool == "onnxsim":
        return onnxsim.read(line.arguments, version)
    return quantization.read(line.tool, line.arguments, version)


def _summary(model: Path) -> Mapping[str, Any]:
    try:
        return onnxmodel.summary(model)
    except ModuleNotFoundError as error:
        raise ToolchainError(
            f"adopt: the model is read with {error.name!r}, which is not installed", "pip install 'mobuild[onnx]'"
        ) from error


def _place_shapes(wishes: Wishes, summary: Mapping[str, Any]) -> None:
    """Give a shape without a name the only input's."""
    if "*" in wishes.shapes:
        names = [each["name"] for each in summary["inputs"]]
        if len(names) != 1:
            known = ", ".join(names) or "none"
            raise ConfigError(f"adopt: a shape names no input, and the model has {known}", "write input:sizes")
        wishes.shapes = {names[0]: wishes.shapes["*"]}


def _scales(wishes: Wishes, place: Place, model: Path) -> Scales | None:
    """The calibration cache of the line, held against its TensorRT and its model."""
    if not wishes.calibration:
        return None
    found = scales.read(place.file(wishes.calibration))
    said = next(each for each in wishes.flags if each.value == wishes.calibration and "calib" in each.flag)
    if "int8" not in wishes.types or wishes.is_typed:
        _replace(wishes, said, "ignored", note="does nothing without --int8")
        return None
    if strangers := found.strangers(_tensors(model)):
        wishes.warnings.append(
            f"{wishes.calibration}: tensors that the model does not have: {strangers}; calibrated on another graph?"
        )
    if not wishes.is_weak_there:
        _replace(wishes, said, "mapped", "nodes.scales", "its scales become ranges, and Q/DQ in the graph")
        return found
    _replace(wishes, said, "mapped", "backend.tensorrt.calibration_cache")
    if other := found.of_another(wishes.version):
        wishes.warnings.append(f"{wishes.calibration}: {other}: the build will refuse it; calibrate anew")
    return found


def _tensors(model: Path) -> set[str]:
    graph = onnxmodel.load(model, external_data=False).graph
    return {each.name for each in graph.input} | {name for node in graph.node for name in (*node.input, *node.output)}


def _replace(wishes: Wishes, said: Flag, verdict: str, key: str = "", note: str = "") -> None:
    wishes.flags[wishes.flags.index(said)] = replace(said, verdict=verdict, key=key, note=note)


def _content(
    line: Line, wishes: Wishes, made: Precision, place: Place, name: str, is_version_given: bool
) -> recipe.Content:
    product = wishes.product if wishes.target == "engine" else ""
    options: dict[str, Any] = {}
    if product == "tensorrt":
        options = {"version": wishes.version} if is_version_given else {}
        options |= {"typing": "weak"} if made.is_weak else {}
        if made.is_weak and made.name == "int8":
            options["calibration_cache"] = place.uri(wishes.calibration)
    options |= wishes.options
    if "plugins" in options:
        options["plugins"] = [place.uri(path) for path in options["plugins"]]
    _place_timing_cache(wishes, options, place)
    if wishes.raw:
        options["raw"] = wishes.raw
    nodes = dict(wishes.nodes)
    if made.rest:
        nodes["quantized"] = {**nodes.get("quantized", {}), "rest": made.rest}
    return recipe.Content(
        name=name,
        line=line.text,
        command=_command(line, wishes),
        version=wishes.version,
        target=wishes.target,
        model=place.uri(wishes.model),
        product=product,
        precision=made.name,
        is_weak=made.is_weak,
        workspace=wishes.workspace,
        nodes=nodes,
        options=options if product else {},
        lacks_samples=made.lacks_samples,
    )


def _command(line: Line, wishes: Wishes) -> str:
    """The line as the `cmd` of a node that makes its engine."""
    saved = next((each.value for each in wishes.flags if each.flag in _SAVING), "")
    command = line.placed({wishes.model: "{in.model}", saved: "{out}"})
    return command if saved or line.tool != "trtexec" else f"{command} --saveEngine={{out}}"


def _place_timing_cache(wishes: Wishes, options: dict[str, Any], place: Place) -> None:
    """A timing cache that is there is pinned; one that the line would begin is the machine's own."""
    path = wishes.files.get("timing_cache")
    if path is None:
        return
    said = next(each for each in wishes.flags if each.value == path and "iming" in each.flag)
    if place.file(path).is_file():
        options["timing_cache"] = place.uri(path)
        note = "read only, and counts by its content; timing_cache: shared writes, too"
        _replace(wishes, said, "mapped", f"backend.tensorrt.timing_cache: {options['timing_cache']}", note)
    else:
        _replace(wishes, said, "ignored", note="is not there yet; mobuild keeps one for each machine and card")


def _ranges(name: str, made: Precision, nodes: Mapping[str, Any]) -> dict[str, Any]:
    """The nodes that make Q/DQ of a cache's scales."""
    quantized = {**nodes.get("quantized", {}), "needs": {"calibration": "scales"}}
    return {"scales": {"kind": "source", "uri": f"recipes/{name}.ranges.json"}, "quantized": quantized}


def _around(line: Line) -> list[str]:
    found = [" ".join(words) for words in (line.before, line.after) if words]
    return [f"left out: {words}" for words in found]


def _without_size(missing: Sequence[str], content: recipe.Content) -> list[str]:
    taken = "the builder takes 1, and so does the recipe" if content.product else "an engine of the recipe takes 1"
    return [f"no shape gives axis {', '.join(map(repr, missing))} a size: {taken}"] if missing else []


def _of_builder(wishes: Wishes, content: recipe.Content) -> list[str]:
    """What mobuild does otherwise where the line says nothing."""
    found = []
    if content.product and not content.workspace:
        found.append("workspace: the line lets the builder take all memory of the device, the recipe 4GiB")
    if content.product == "tensorrt" and not content.is_weak:
        found.append("the graph is cleaned first; nodes.engine.needs.model=onnx builds the file as it is")
    if content.product == "tensorrt" and wishes.version.split(".")[0] in ("8", "9"):
        version = wishes.version
        found.append(
            f"mobuild builds with TensorRT 10 and 11; the line for {version} is told by: mobuild command engine"
        )
    return found
