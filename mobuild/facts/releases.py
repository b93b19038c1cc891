"""Releases of TensorRT and TensorRT-RTX: what each builds for and runs with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mobuild.facts import CERTAIN, Support, load, minor, newest, order, rows

PRODUCTS = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}


@dataclass(frozen=True)
class Release:
    """One release. `sm_min` to `sm_max`, or the list `builds`, are the compute capabilities that it builds for.

    `unknown` says why nothing about the version that was asked for is sure; the row is then its next of kin.
    """

    version: str
    cuda: tuple[str, ...]
    python: tuple[str, str]
    source: str
    confidence: str
    sm_min: str = ""
    sm_max: str = ""
    builds: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    opset: tuple[int, int] | None = None
    uncertain: tuple[str, ...] = ()
    unknown: str = ""

    def is_sure(self, field: str) -> bool:
        return self.confidence in CERTAIN and field not in self.uncertain and not self.unknown


@dataclass(frozen=True)
class _First:
    """The release that met a compute capability first, where the range of older ones holds it, too."""

    capability: str
    version: str
    source: str
    confidence: str


@dataclass(frozen=True)
class _Host:
    host: str
    since: str
    until: str
    note: str
    source: str
    confidence: str


@dataclass(frozen=True)
class _Limit:
    capability: str
    note: str
    source: str
    confidence: str


def releases(product: str) -> tuple[Release, ...]:
    """All releases of `tensorrt` or `tensorrt_rtx`, oldest first."""
    return rows(Release, product, "releases")


def driven() -> tuple[Release, ...]:
    """The releases of TensorRT that mobuild drives."""
    start = order(load("tensorrt")["driven_from"])
    return tuple(each for each in releases("tensorrt") if order(each.version) >= start)


def release(product: str, version: str = "") -> Release:
    """The release of `version` (`10.5`, `1.7.1.116`); the newest when it is empty."""
    known = releases(product)
    if not version:
        return known[-1]
    row = newest(known, version) or known[0]
    if any(minor(each.version) == minor(version) for each in known):
        return row
    return replace(row, unknown=_unknown(known, version))


def supports(release: Release, capability: str) -> Support:
    """Whether a release builds for a compute capability."""
    if release.builds:
        return _listed(release, capability)
    if order(capability) < order(release.sm_min):
        return _no(release, "sm_min", f"starts at {release.sm_min}")
    if order(capability) > order(release.sm_max):
        return _no(release, "sm_max", f"ends at {release.sm_max}")
    first = next((each for each in rows(_First, "tensorrt", "first") if each.capability == capability), None)
    if first and order(release.version) < order(first.version):
        return Support.denied(f"has {capability} from {first.version} on", first, release.unknown)
    if first and first.confidence not in CERTAIN:
        return Support("unverified", f"may have {capability}", first.source)
    return _within(release, capability)


def limits(capability: str) -> tuple[str, ...]:
    """What TensorRT-RTX refuses for a compute capability that it builds for."""
    return tuple(each.note for each in rows(_Limit, "tensorrt_rtx", "limited") if each.capability == capability)


def cuda_fits(release: Release, cuda: str) -> Support:
    """Whether a release has packages for a CUDA toolkit: any minor version of a major one will do."""
    if any(each.split(".")[0] == cuda.split(".")[0] for each in release.cuda):
        return _yes(release, "cuda")
    return _no(release, "cuda", f"is made for CUDA {', '.join(release.cuda)}, not {cuda}")


def python_fits(release: Release, python: str) -> Support:
    """Whether a release has wheels for a Python (`3.12`)."""
    low, high = release.python
    if order(low) <= minor(python) <= order(high):
        return _yes(release, "python")
    return _no(release, "python", f"has wheels for Python {low} to {high}, not {python}")


def next_for_host(version: str, host: str) -> str:
    """The first release after `version` with packages for a host that it has none for; empty when it has some."""
    known = rows(_Host, "tensorrt", "hosts")
    lacking = [each for each in known if each.host == host and order(each.since) <= order(version) < order(each.until)]
    if not lacking:
        return ""
    return next_for_host(lacking[0].until, host) or lacking[0].until


def host_fits(release: Release, version: str, host: str) -> Support:
    """Whether a release has packages for a host (`sbsa`, `jetpack`); two numbers stand for all that begin so."""
    for row in rows(_Host, "tensorrt", "hosts"):
        if row.host == host and order(row.since) <= order(version) < order(row.until):
            is_any = len(version.split(".")) < 3 and minor(version) == minor(row.until)
            return Support.denied(row.note, row, f"{row.until} has them" if is_any else release.unknown)
    return Support("yes")


def lacks_type(dtype: str) -> bool:
    """Whether the parsers of TensorRT and TensorRT-RTX have no type for an ONNX type."""
    return any(dtype in row["types"] for row in load("tensorrt")["no_types"])


def opset_range(version: str) -> tuple[int, int]:
    """The oldest and newest ONNX opset that the parser of a TensorRT takes."""
    found = release("tensorrt", version).opset
    assert found, version
    return found


def takes_opset(release: Release, opset: int) -> bool:
    """Whether its parser is known to take an ONNX opset, if not surely."""
    low, high = release.opset or (0, -1)
    return low <= opset <= high


def first_with_card(product: str, capability: str) -> str:
    """The oldest release that surely builds for a compute capability; empty when there is none."""
    fitting = (each.version for each in releases(product) if supports(each, capability).word in ("yes", "limited"))
    return next(fitting, "")


def nearest_release(capability: str, cuda: str = "", python: str = "", product: str = "tensorrt") -> str:
    """The newest release that surely fits all that is given; empty when there is none."""
    for each in reversed(releases(product)):
        answers = [supports(each, capability)]
        answers += [cuda_fits(each, cuda)] if cuda else []
        answers += [python_fits(each, python)] if python else []
        if all(answer.word == "yes" for answer in answers):
            return each.version
    return ""


def _listed(release: Release, capability: str) -> Support:
    if capability not in release.builds:
        return _no(release, "builds", f"has no compute capability {capability}, only {', '.join(release.builds)}")
    if capability not in release.runs:
        return Support("limited", f"its runtime lists only {', '.join(release.runs)}", release.source)
    return _yes(release, "builds")


def _within(release: Release, capability: str) -> Support:
    """A capability inside the range; one beyond the last end that was sure rests on this row alone."""
    if release.unknown:
        return _yes(release, "sm_min")
    if not release.is_sure("sm_min"):
        return Support("unverified", f"may have {capability}", release.source)
    if release.is_sure("sm_max"):
        return _yes(release, "sm_min")
    older = (each for each in releases("tensorrt") if order(each.version) < order(release.version))
    sure = [order(each.sm_max) for each in older if each.is_sure("sm_max")]
    if order(capability) <= max(sure, default=()):
        return _yes(release, "sm_min")
    return Support("unverified", f"may have {capability}", release.source)


def _yes(release: Release, field: str) -> Support:
    return Support.granted(release, "" if release.is_sure(field) else release.unknown or _doubt(field))


def _no(release: Release, field: str, why: str) -> Support:
    return Support.denied(why, release, "" if release.is_sure(field) else _doubt(field))


def _doubt(field: str) -> str:
    return f"its {field} is not sure"


def _unknown(known: tuple[Release, ...], version: str) -> str:
    if order(version) > order(known[-1].version):
        return f"the table ends at {known[-1].version}"
    if order(version) < order(known[0].version):
        return f"the table starts at {known[0].version}"
    return f"the table has no {version}"
