"""What an image is made of, as CycloneDX 1.6 JSON: each Debian package, each wheel, the engine.

The library writes the document; what it would draw at random or from the clock is given, so that equal parts give
equal bytes: references are package URLs, the serial number is a digest's, the time is the epoch of the build.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from mobuild.errors import ToolchainError

_SERIALS = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/mobuild")
# As layers call them → in a package URL.
KINDS = {"deb": "deb", "wheel": "pypi", "app": "generic", "base": "oci"}
ENGINE = "engine"
ENGINE_VERSION = "1"  # that of each model, as the server tells it


@dataclass(frozen=True)
class Part:
    """One package of the image. `type` is one of `KINDS`; `sha256` is that of the .deb, the wheel, the base's manifest,
    or of all files of an application. `licence` is what its metadata say: an SPDX expression, a name, or nothing."""

    type: str
    name: str
    version: str
    sha256: str
    licence: str = ""


@dataclass(frozen=True)
class Engine:
    """The engine: its files by name with their SHA-256, and what is known of it (precision, target, verdict, key)."""

    name: str
    version: str
    sha256: Mapping[str, str]
    properties: Mapping[str, str]


def write(
    path: Path,
    name: str,
    parts: Iterable[Part],
    engine: Engine | None,
    epoch: int = 0,
    deb: Mapping[str, str] | None = None,
) -> None:
    """Write the document of the image `name`, which may hold no engine, to `path`.

    `deb` are the qualifiers of Debian's package URLs: `{"arch": "amd64", "distro": "bookworm"}`.

    Raises:
        ToolchainError: cyclonedx-python-lib is not installed.
    """
    try:
        path.write_text(_document(name, tuple(parts), engine, epoch, deb or {}), encoding="utf-8")
    except ImportError as error:
        raise ToolchainError(f"the bill of materials of an image: {error}", "pip install 'mobuild[image]'") from error


def _document(name: str, parts: Sequence[Part], engine: Engine | None, epoch: int, deb: Mapping[str, str]) -> str:
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.dependency import Dependency
    from cyclonedx.output.json import JsonV1Dot6

    packages = [_package(part, deb) for part in sorted(set(parts), key=lambda part: (part.type, part.name))]
    models = [_model(engine)] if engine else []
    image = Component(name=name, type=ComponentType.CONTAINER, bom_ref=f"pkg:oci/{name}")
    below = [Dependency(each.bom_ref) for each in (*packages, *models)]
    bom = Bom(
        components=[*packages, *models],
        serial_number=_serial(name, parts, engine),
        metadata=BomMetaData(component=image, timestamp=datetime.fromtimestamp(epoch, timezone.utc)),
        dependencies=[Dependency(image.bom_ref, below), *below],
    )
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return text + "\n"


def _package(part: Part, deb: Mapping[str, str]) -> Any:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    types = {"app": ComponentType.APPLICATION, "base": ComponentType.CONTAINER}
    debian = {"namespace": "debian", "qualifiers": dict(deb)} if part.type == "deb" else {}
    url = PackageURL(type=KINDS[part.type], name=part.name.rpartition("/")[2], version=part.version or None, **debian)
    return Component(
        name=part.name,
        version=part.version or None,
        type=types.get(part.type, ComponentType.LIBRARY),
        purl=url,
        bom_ref=str(url),
        hashes=_hashes(part.sha256),
        licenses=_licences(part.licence),
    )


def _model(engine: Engine) -> Any:
    """The engine and, below it, its files where they are several."""
    from cyclonedx.model.component import Component, ComponentType

    files = [
        Component(name=name, type=ComponentType.FILE, bom_ref=f"engine/{name}", hashes=_hashes(digest))
        for name, digest in sorted(engine.sha256.items())
    ]
    only = next(iter(engine.sha256.values())) if len(files) == 1 else ""
    return Component(
        name=engine.name,
        version=engine.version or None,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref="engine",
        hashes=_hashes(only),
        components=files,
        properties=_properties(engine.properties),
    )


def _hashes(sha256: str) -> list[Any]:
    from cyclonedx.model import HashAlgorithm, HashType

    return [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []


def _licences(licence: str) -> list[Any]:
    from cyclonedx.contrib.license.factories import LicenseFactory

    return [LicenseFactory().make_from_string(licence)] if licence else []


def _properties(found: Mapping[str, str]) -> list[Any]:
    from cyclonedx.model import Property

    return [Property(name=f"mobuild:{name}", value=value) for name, value in sorted(found.items())]


def _serial(name: str, parts: Sequence[Part], engine: Engine | None) -> uuid.UUID:
    state = hashlib.sha256()
    files = sorted(engine.sha256.items()) if engine else []
    for text in (name, *sorted(map(repr, set(parts))), repr(files)):
        state.update(text.encode() + b"\0")
    return uuid.uuid5(_SERIALS, state.hexdigest())
