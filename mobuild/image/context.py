"""An image as the context of a build elsewhere: a tar for each layer, and a Containerfile that adds them.

`ADD` unpacks a tar with its modes, times and links, which the folder of a context could not all carry.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mobuild.errors import ConfigError
from mobuild.image import tars
from mobuild.image.writer import Image, Written

_OTHERS = "image.format: tar or layout"


def write(image: Image, out: Path) -> Written:
    """Write the new folder `out`. No digest is known: whoever builds gives one.

    Raises:
        ConfigError: a layer is packed with what `ADD` does not unpack, or removes files of those below.
    """
    if any(layer.media_type.endswith("zstd") for layer in image.layers):
        raise ConfigError("image.format=context: ADD unpacks no zstd", "image.compression=gzip")
    if any(_removes(layer.blob) for layer in image.layers):
        raise ConfigError("image.format=context: the base has a layer that removes files, which ADD cannot", _OTHERS)
    out.mkdir()
    lines = ["FROM scratch"]
    for number, layer in enumerate(image.layers):
        name = f"{number:02}-{layer.created_by.rpartition(' ')[2]}.tar.gz"
        shutil.copyfile(layer.blob, out / name)
        lines.append(f"ADD {name} /")
    (out / "Containerfile").write_text("\n".join([*lines, *_instructions(image)]) + "\n", encoding="utf-8")
    return Written("", "")


def _removes(blob: Path) -> bool:
    with open(blob, "rb") as stream, tars.opened(tars.unpacked(stream)) as archive:
        return any(member.name.rpartition("/")[2].startswith(".wh.") for member in archive)


def _instructions(image: Image) -> list[str]:
    config = image.config
    lines = [f"ENV {key}={_quoted(value)}" for key, _, value in (each.partition("=") for each in config["Env"])]
    lines += [f"LABEL {key}={_quoted(value)}" for key, value in sorted(image.labels.items())]
    lines += [f"EXPOSE {port}" for port in config["ExposedPorts"]]
    lines += [f"USER {config['User']}", f"WORKDIR {config['WorkingDir']}", f"STOPSIGNAL {config['StopSignal']}"]
    return lines + [f"{word.upper()} {json.dumps(config[word])}" for word in ("Entrypoint", "Cmd")]


def _quoted(value: str) -> str:
    """A word of a Containerfile in which nothing is expanded."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
