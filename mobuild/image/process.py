"""The process that an image starts: its command, variables and user. What proves an image starts the same."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, Mapping

from mobuild.errors import ConfigError
from mobuild.image import bases, runtimes

PYTHON = "/usr/bin/python3.11"
ENTRYPOINT = (PYTHON, "-m", "mobuild_runtime")
_VARIABLES = {
    "PATH": "/usr/bin",
    "PYTHONPATH": "/app",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "LANG": "C.UTF-8",
    "MOBUILD_MODEL": "/model",
}
_EXAMPLE = "image.app=serving.py:answer, where serving.py lies beside the recipe"


def application(app: str) -> tuple[str, str]:
    """(file or folder beside the recipe, `module:function` in the image) of `serving.py:answer`, or `serving:answer`.

    Raises:
        ConfigError: it is neither, or its module cannot be imported by that name.
    """
    path, _, function = app.partition(":")
    module = PurePosixPath(path).name
    module = module[: -len(".py")] if module.endswith(".py") else module
    if not (module.isidentifier() and function.isidentifier()) or module == "mobuild_runtime":
        raise ConfigError(f"image.app: expected file.py:function or folder:function, found {app!r}", _EXAMPLE)
    return path, f"{module}:{function}"


def variables(base: Path, runtime: str, app: str = "") -> dict[str, str]:
    """All variables of an image on the layer in `base`. Of a base of the user's, PATH and PYTHONPATH give way: nothing
    in it is started by name."""
    file = base / bases.CONFIG
    found = json.loads(file.read_bytes()).get("Env") or [] if file.exists() else []
    own = dict(each.partition("=")[::2] for each in found)
    hook = {"MOBUILD_APP": application(app)[1]} if app else {}
    return {**own, **_VARIABLES, **runtimes.RUNTIMES[runtime].variables, **hook}


def container(environment: Mapping[str, str]) -> dict[str, Any]:
    """The part `config` of an image's configuration (OCI image-spec, "Image Configuration")."""
    return {
        "Entrypoint": list(ENTRYPOINT),
        "Cmd": ["serve"],
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "User": "65532:65532",
        "ExposedPorts": {"8000/tcp": {}},
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
    }
