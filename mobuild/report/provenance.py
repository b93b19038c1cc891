"""Provenance: an artifact's sidecar as an in-toto Statement v1 with an SLSA Provenance v1 predicate.

Formats: https://github.com/in-toto/attestation/tree/main/spec/v1 and https://slsa.dev/spec/v1.0/provenance.
A statement leaves the machine, so it names no place on it: absolute paths shrink to their last part, URLs lose
credentials, values of secrets become names, and what was only `seen` (host, system) is left out. It is not
signed, and says no more than the sidecar knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from mobuild.fetch import without_credentials

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
# Package URLs, since they name the distribution and no domain that may change hands.
BUILD_TYPE = "pkg:pypi/mobuild#node/v1"
BUILDER = "pkg:pypi/mobuild"

# Names of digests beside those of in-toto's DigestSet; all are lower-case hexadecimal.
FOLDER = "mobuildFolder"  # SHA-256 of a folder's canonical listing of names, sizes and SHA-256
QUICK = "xxh3_128"  # XXH3-128, where no SHA-256 is known
SYNTAX = "mobuildSyntax"  # XXH3-128 of a Python module without comments, doc strings and positions

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_FILE_URL = re.compile(r"file://[^\s'\"<>]*/")
# Where a path begins: with a word, or behind a flag such as `-I`; `*/head/*` and what is in a URL are none.
_START = r"(?:^|(?<=[\s'\"=,:;(\[{<>|&])|(?<=^-[A-Za-z])|(?<=[\s'\"=,]-[A-Za-z]))"
_HOME = re.compile(rf"(?:{_START}|(?<![\w.%\]}}/*-]))/(?:home|Users)/[^\s'\",;:/]+")  # its last part is the user's name
_ABSOLUTE = re.compile(rf"{_START}(?:/(?![/\s]|$)|~[\w.-]*/)(?:[^\s'\",;:/]+/+)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def statement(document: Mapping[str, Any], name: str, secrets: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The statement about one artifact.

    `document` is its sidecar, or a record of the cache; `name` the artifact's file name. `secrets` are values that
    must not appear, with the names that stand for them (`observers.environment.secret_values`).
    """
    known = {**document.get("seen", {}), **document, **document.get("artifact", {})}
    said = {
        "_type": STATEMENT,
        "subject": [{"name": name.rpartition("/")[2], "digest": _own_digest(known)}, *_manifest(known)],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": _definition(known), "runDetails": _details(known)},
    }
    cleaned = _cleaned(said, secrets or {})
    assert isinstance(cleaned, dict)
    return cleaned


def _definition(known: Mapping[str, Any]) -> dict[str, Any]:
    fingerprint = known["fingerprint"]
    placed = {"recipe": known.get("recipe"), "variant": known.get("variant"), "target": known.get("node")}
    loaded = {one["name"]: one["value"] for one in _observed(known, "distribution") if one["value"] != "-"}
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            **{key: value for key, value in placed.items() if value},
            "kind": fingerprint["kind"],
            "parameters": fingerprint["params"],
        },
        "internalParameters": {
            "revision": fingerprint["revision"],
            "tools": {**loaded, **fingerprint["toolchain"]},
        },
        "resolvedDependencies": [*_inputs(known), *_code(fingerprint), *_files(known), *_packages(known)],
    }


def _details(known: Mapping[str, Any]) -> dict[str, Any]:
    version = {"version": {"mobuild": known["mobuild"]}} if known.get("mobuild") else {}
    times = {"startedOn": _timestamp(known.get("started")), "finishedOn": _timestamp(known.get("created"))}
    metadata = {"invocationId": known["key"], **{key: value for key, value in times.items() if value}}
    return {"builder": {"id": BUILDER, **version}, "metadata": metadata}


def _own_digest(known: Mapping[str, Any]) -> dict[str, str]:
    return {FOLDER if known.get("is_folder") else "sha256": known["sha256"]}


def _manifest(known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """An image by the digest that a registry gives it."""
    digest = str(known.get("measurements", {}).get("manifest") or "").partition("sha256:")[2]
    if known["fingerprint"]["kind"] == "image" and digest:
        yield {"name": "manifest", "digest": {"sha256": digest}}


def _inputs(known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What the node was given, called after the nodes that made it; a record knows only the roles."""
    told = known.get("inputs", {})
    for role, digest in sorted(known["fingerprint"]["inputs"].items()):
        one = told.get(role, {})
        strong = {FOLDER if one.get("is_folder") else "sha256": one["sha256"]} if one.get("sha256") else {}
        yield {
            "name": one.get("node", role),
            "digest": {**strong, QUICK: digest},
            "annotations": {"mobuild_role": role},
        }


def _code(fingerprint: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for module, digest in sorted(fingerprint["code"].items()):
        yield {"name": module, "digest": {SYNTAX: digest}, "annotations": {"mobuild_role": "code"}}


def _files(known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Files that the code was seen to read, undeclared."""
    for one in _observed(known, "file"):
        if _SHA256.fullmatch(one["value"]):
            yield {
                "name": one["name"],
                "digest": {"sha256": one["value"]},
                "annotations": {"mobuild_role": "observed"},
            }


def _packages(known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Wheels, Debian packages and the base that an image is made of."""
    found = known.get("measurements", {}).get("packages") if known["fingerprint"]["kind"] == "image" else None
    for name, digest in sorted((found or {}).items()):
        yield {"name": name, "digest": {"sha256": digest}, "annotations": {"mobuild_role": "package"}}


def _observed(known: Mapping[str, Any], kind: str) -> list[Mapping[str, str]]:
    return [one for one in known.get("conditions", ()) if one["kind"] == kind]


def _timestamp(text: str | None) -> str | None:
    """RFC 3339 in UTC with a `Z`, as in-toto wants it."""
    try:
        return datetime.fromisoformat(text or "").astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None


def _cleaned(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {_cleaned(key, secrets): _cleaned(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, secrets) for item in value]
    return _public(value, secrets) if isinstance(value, str) else value


def _public(text: str, secrets: Mapping[str, str]) -> str:
    """`text` without secrets, credentials of URLs, and folders of absolute paths."""
    for secret, name in secrets.items():
        text = text.replace(secret, f"<{name}>")
    text = _FILE_URL.sub("", text)
    text = _URL.sub(lambda found: without_credentials(found[0]), text)
    return _ABSOLUTE.sub("", _HOME.sub("~", text))
