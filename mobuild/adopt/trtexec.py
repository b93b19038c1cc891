"""A line of trtexec 8.5 to 11: its flags together, and what its version has of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mobuild.adopt import shapes
from mobuild.adopt.trtexec_flags import read_flag
from mobuild.adopt.trtexec_tables import NO_MODEL
from mobuild.adopt.wishes import Corners, Wishes, unknown_flags, whole
from mobuild.errors import ConfigError
from mobuild.facts.features import flag as known
from mobuild.facts.features import flags, replacement

_REPEATED = ("--profile", "--minShapes", "--optShapes", "--maxShapes", "--plugins", "--staticPlugins")


def read(arguments: Sequence[str], version: str) -> Wishes:
    """What a line of trtexec asks for.

    Raises:
        ConfigError: a flag that no version has, one without the value that it needs, no model, or two of them.
    """
    pairs = [(word.partition("=")[0], word.partition("=")[2]) for word in arguments]
    names = flags()
    if unknown := [name for name, _ in pairs if name not in names]:
        raise _unknown(unknown, names)
    wishes = Wishes("trtexec", version)
    given = dict(reversed(pairs))
    _refuse_other_models(given)
    for name, value in pairs:
        if name not in (*_REPEATED, "--onnx") and given[name] != value:
            raise ConfigError(f"adopt: {name}: expected one value, found {given[name]} and {value}", "drop one of them")
    for name, value in dict.fromkeys(pairs) if "--profile" not in given else pairs:
        read_flag(wishes, name, value)
    wishes.profiles = [shapes.filled(each) for each in _profiles(pairs)]
    wishes.shapes = shapes.of_trtexec("--shapes", given["--shapes"]) if given.get("--shapes") else {}
    if not wishes.model:
        raise ConfigError("adopt: trtexec: expected --onnx=…, found no model", "trtexec --onnx=det.onnx …")
    return wishes


def _profiles(pairs: Sequence[tuple[str, str]]) -> list[Corners]:
    """The profiles as they are given: `--profile=N` begins one, and without it there is one."""
    found: dict[int, Corners] = {}
    number = 0
    is_numbered = any(name == "--profile" for name, _ in pairs)
    for name, value in pairs:
        if name == "--profile":
            number = whole(name, value)
            if number in found:
                raise ConfigError(f"adopt: --profile={number} is there twice", "number them from 0 on")
            found[number] = {}
        elif name in ("--minShapes", "--optShapes", "--maxShapes"):
            profile = found.setdefault(number, {})
            corner = name[2:5]
            if corner in profile and profile[corner] != shapes.of_trtexec(name, value):
                raise ConfigError(
                    f"adopt: {name} is there twice",
                    "several profiles are numbered: --profile=0 --minShapes=… --profile=1 --minShapes=…",
                )
            profile[corner] = shapes.of_trtexec(name, value)
    if is_numbered and (sorted(found) != list(range(len(found))) or not all(found.values())):
        raise ConfigError("adopt: --profile: expected profiles numbered from 0 on, each with shapes after its number")
    return [found[number] for number in sorted(found)]


def _refuse_other_models(given: dict[str, str]) -> None:
    if "--help" in given or "-h" in given:
        raise ConfigError("adopt: trtexec --help: builds nothing", "give the line that builds the engine")
    if "--loadEngine" in given:
        raise ConfigError(
            f"adopt: --loadEngine={given['--loadEngine']}: this line opens an engine and builds none",
            "adopt the line that built it, the one with --onnx and --saveEngine",
        )
    if found := [name for name in NO_MODEL if name in given]:
        raise ConfigError(
            f"adopt: {found[0]}: Caffe and UFF models are read by no TensorRT since 10.0", "convert the model to ONNX"
        )


def say_versions(wishes: Wishes) -> None:
    """Add to each flag what its version says of it."""
    for i, each in enumerate(wishes.flags):
        word = f"{each.flag}={each.value}" if each.value else each.flag
        answer = known(word, wishes.version)
        if answer.word in ("yes", "unverified"):
            continue
        instead = replacement(word, wishes.version)
        if each.note and not instead.startswith("--"):
            instead = ""  # the note says already what takes its place
        why = answer.why.replace(word, "").replace("is deprecated", "deprecated").replace("was removed", "removed")
        why = f"{why.strip()}{f': {instead}' if instead else ''}"
        is_gone = answer.word == "no" and "removed" in answer.why and each.verdict not in ("measuring", "lost")
        note = "; ".join(filter(None, (each.note, why)))
        wishes.flags[i] = replace(each, verdict="removed" if is_gone else each.verdict, note=note)


def _unknown(unknown: Sequence[str], names: Sequence[str]) -> ConfigError:
    if bare := [each for each in unknown if not each.startswith("-")]:
        return ConfigError(
            f"adopt: trtexec: what is {bare[0]!r}? Flags have their values after '='", f"--onnx={bare[0]}, for one"
        )
    return unknown_flags("trtexec", unknown, names)
