"""An image as the context of a build elsewhere: a tar for each layer, and a Containerfile that adds them.

`ADD` unpacks a tar with its modes, times and links, which the folder of a context could not all carry.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mobuild.errors import ConfigError
from mobuild.image.writer import Image, Written


def write(image: Image, out: Path) -> Written:
    """Write the new folder `out`. No digest is known: whoever builds gives one.

    Raises:
        ConfigError: a layer is packed with what `ADD` does not unpack.
    """
    if any(layer.media_type.endswith("zstd") for layer in image.layers):
        raise ConfigError("image.format=context: ADD unpacks no zstd", "image.compression=gzip")
    out.mkdir()
    lines = ["FROM scratch"]
    for number, layer in enumerate(image.layers):
        name = f"{number:02}-{layer.created_by.rpartition(' ')[2]}.tar.gz"
        shutil.copyfile(layer.blob, out / name)
        lines.append(f"ADD {name} /")
    (out / "Containerfile").write_text("\n".join([*lines, *_instructions(image)]) + "\n", encoding="utf-8")
    return Written("", "")


def _instructions(image: Image) -> list[str]:
    config = image.config
    lines = [f"ENV {key}={json.dumps(value)}" for key, _, value in (each.partition("=") for each in config["Env"])]
    lines += [f"LABEL {key}={json.dumps(value)}" for key, value in sorted(image.labels.items())]
    lines += [f"EXPOSE {port}" for port in config["ExposedPorts"]]
    lines += [f"{word.upper()} {config[word]}" for word in ("User", "WorkingDir", "StopSignal")]
    return lines + [f"{word.upper()} {json.dumps(config[word])}" for word in ("Entrypoint", "Cmd")]
