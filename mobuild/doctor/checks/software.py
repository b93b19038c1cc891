"""D40–D45: packages that do not fit each other or the card. Nothing is imported: metadata and files tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mobuild.contract.rules import Request, check
from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import Card, State
from mobuild.facts.frameworks import torch_wheels, torch_wheels_for
from mobuild.facts.releases import releases, supports
from mobuild.hardware import Hardware
from mobuild.versions import version_key

_TENSORRT = r"tensorrt(-cu\d+)?"
_PARTS = re.compile(r"(tensorrt(?:-rtx)?)(?:-cu\d+)?(-libs|-bindings)?")
_HOLDERS = {  # a library's name without its version → the distribution that holds it, for CUDA 12 and 13
    "libnvinfer": "tensorrt-cu{cuda}=={version}.*",
    "libcudnn": "nvidia-cudnn-cu{cuda}=={version}.*, for CUDA 12 nvidia-cudnn-cu12",
    "libcublas": "nvidia-cublas-cu12, from CUDA 13 on nvidia-cublas",
    "libcublasLt": "nvidia-cublas-cu12, from CUDA 13 on nvidia-cublas",
    "libcudart": "nvidia-cuda-runtime-cu12, from CUDA 13 on nvidia-cuda-runtime",
    "libcufft": "nvidia-cufft-cu12, from CUDA 13 on nvidia-cufft",
    "libcurand": "nvidia-curand-cu12, from CUDA 13 on nvidia-curand",
}


def software(state: State) -> tuple[Finding, ...]:
    checks = (_stubs, _parts, _several_tensorrt, _vision, _kernels, _releases, _libraries)
    return tuple(finding for check_of in checks for finding in check_of(state))


def no_kernels(state: State, card: Card | None = None, severity: str = ERROR) -> Finding:
    """Also what `no kernel image is available for execution on the device` means. `card`: None when not known."""
    torch = state.software.packages.get("torch")
    row = torch_wheels(torch.cuda if torch else "")
    compiled, ptx = (row.capabilities, row.ptx) if row else ((), "")
    listed = ", ".join(compiled) or "a list that is not known here (torch.cuda.get_arch_list() tells it)"
    program = f"torch {torch.version}" if torch and compiled else "the program's wheel"
    capability = f"the card's compute capability{f' {card.capability}' if card else ''}"
    wheels = torch_wheels_for(card.capability) if card else ()
    fix = "take a wheel that is compiled for the card, or compile it (TORCH_CUDA_ARCH_LIST)"
    if wheels:
        index = f"https://download.pytorch.org/whl/cu{wheels[-1].replace('.', '')}"
        fix = f"take the wheel for CUDA {wheels[-1]}: pip install torch --index-url {index}"
    return Finding(
        "D43",
        severity,
        f"GPU {card.index}" if card else "package 'torch'",
        f"{capability} is not in what {program} is compiled for: {listed}{f', and PTX of {ptx}' if ptx else ''}",
        "machine code runs on its own major version, from its minor version on; without it, and without PTX of an "
        "older card, there is no kernel image for the device",
        fix,
    )


def unknown_to_tensorrt(state: State, capability: str) -> Finding:
    """Also what `Target GPU SM 120 is not supported by this TensorRT release` means: rules R1 and R2, by the table."""
    known = releases("tensorrt")
    fitting = [each.version for each in known if supports(each, capability).word == "yes"]
    card = f"compute capability {capability}"
    if not fitting:
        rule = f"R2: no TensorRT up to {known[-1].version} is known to fit {card}"
    elif fitting[-1] == known[-1].version:
        rule = f"R2: the first TensorRT that fits {card} is {fitting[0]}"
    else:
        rule = f"R1: the last TensorRT that fits {card} is {fitting[-1]}"
    own = [f"{name} {one.version}" for name, one in state.software.packages.items() if re.fullmatch(_TENSORRT, name)]
    here = f"; {', '.join(own)} is installed here" if own else ""
    return release_without_card(rule + here, ERROR, "TensorRT")


def release_without_card(message: str, severity: str, subject: str) -> Finding:
    """A rule of the contracts, about a card that is here."""
    why = "a TensorRT knows the cards of its time: it refuses to build for others, and to open engines on them"
    fix = "install the release that is named, or build for another card"
    return Finding("D44", severity, subject, message, why, fix)


def library_missing(name: str, needed_by: str = "", other: str = "", severity: str = ERROR) -> Finding:
    """Also what `<name>: cannot open shared object file` means. `other`: another version of it that is here."""
    stem, _, version = name.partition(".so.")
    holder = _HOLDERS.get(stem.partition("_")[0], "").format(version=version, cuda="13")
    product = "TensorRT" if stem == "libnvinfer" else stem
    state = f"{product} of another major is here: {other}" if other else f"{product} is absent"
    if stem == "libnvinfer":
        why = (
            "ONNX Runtime ships its TensorRT provider without TensorRT, and needs the major version it was built for; "
        )
        why += "without it the session runs on the CPU, or fails"
        fix = f"pip install '{holder}' (tensorrt-cu12 for CUDA 12), or apt install libnvinfer{version}"
    else:
        why = "the provider cannot be loaded, and the session runs on the CPU instead, with a warning at most"
        fix = f"pip install {holder}" if holder else f"install the package that holds {name}, or name its folder in "
        fix += "" if holder else "LD_LIBRARY_PATH"
    provider = f"the provider library {needed_by} needs" if needed_by else "a provider library needs"
    return Finding("D45", severity, f"library {name}", f"{provider} {name}, and {state}", why, fix)


def tensorrt_here(state: State) -> str:
    """Every TensorRT that a process may find: `10.3.0 in /usr/lib/…/libnvinfer.so.10.3.0; 8.6.1 in …`."""
    found = [f"{version} in {path}" for path, version in state.software.tensorrt.items()]
    return f"TensorRT {'; '.join(found)}" if found else "no TensorRT is found"


def _stubs(state: State) -> Iterator[Finding]:
    packages = state.software.packages
    for name, package in packages.items():
        if re.match(r"0\.0\.\d+\.dev", package.version) and name.startswith(("nvidia-", "tensorrt")):
            why = "it is a placeholder of the public index, with nothing inside"
            fix = f"pip uninstall {name}, then install the release that you need"
            yield Finding("D40", ERROR, f"package {name!r}", f"its version is {package.version}", why, fix)
    for family in ("tensorrt", "tensorrt-rtx"):
        own = [name for name in packages if (match := _PARTS.fullmatch(name)) and match[1] == family]
        heads = [name for name in own if not name.endswith(("-libs", "-bindings"))]
        is_split = heads and version_key(packages[heads[0]].version) >= ((8, 6) if family == "tensorrt" else (1,))
        if is_split and not any(name.endswith("-libs") for name in own) and not state.software.tensorrt:
            head = heads[0]
            yield Finding(
                "D40",
                ERROR,
                f"package {head!r}",
                f"{head} {packages[head].version} is here, and no {head}-libs: a stub without the library",
                "the package is a shell that pulls the libraries in; importing it fails",
                f"pip install --force-reinstall --no-cache-dir {head}=={packages[head].version}",
            )


def _parts(state: State) -> Iterator[Finding]:
    """The parts of one product must be of one version."""
    packages = state.software.packages
    for family in ("tensorrt", "tensorrt-rtx"):
        own = {name: one.version for name, one in packages.items() if (m := _PARTS.fullmatch(name)) and m[1] == family}
        if len(set(own.values())) > 1:
            listed = ", ".join(f"{name} {version}" for name, version in own.items())
            why = "the parts talk to their own version alone"
            newest = max(own.values(), key=version_key)
            fix = f"pip install --force-reinstall {family}=={newest}"
            yield Finding("D41", ERROR, f"package {family!r}", f"its parts differ: {listed}", why, fix)


def _several_tensorrt(state: State) -> Iterator[Finding]:
    versions = {version_key(version)[:3] for version in state.software.tensorrt.values()}
    known = {one for one in versions if not any(one != other and other[: len(one)] == one for other in versions)}
    if len(known) > 1:
        listed = tensorrt_here(state)
        why = "a process may build with one and open with the other, and an engine opens in its own version alone"
        fix = "keep one: pip uninstall the wheels, or take the other folder out of LD_LIBRARY_PATH and ld.so.conf"
        yield Finding("D41", ERROR, "TensorRT", f"several versions can be found: {listed}", why, fix)


def _vision(state: State) -> Iterator[Finding]:
    torch = state.software.packages.get("torch")
    for name in ("torchvision", "torchaudio"):
        other = state.software.packages.get(name)
        if torch is None or other is None or not other.cuda:
            continue
        if version_key(torch.cuda)[:1] != version_key(other.cuda)[:1]:
            own = f"CUDA {torch.cuda}" if torch.cuda else "the CPU"
            tag = f"cu{torch.cuda.replace('.', '')}" if torch.cuda else "cpu"
            yield Finding(
                "D42",
                ERROR,
                f"package {name!r}",
                f"{name} {other.version} is built for CUDA {other.cuda}, torch {torch.version} for {own}",
                "its operators do not load: operator torchvision::nms does not exist, or libcudart is not found",
                f"pip install --force-reinstall --no-deps {name} --index-url https://download.pytorch.org/whl/{tag}",
            )


def _kernels(state: State) -> Iterator[Finding]:
    torch = state.software.packages.get("torch")
    row = torch_wheels(torch.cuda) if torch else None
    if torch is None or row is None:
        return
    severity = ERROR if row.is_of(torch.version) else WARNING
    for card in state.cards:
        if card.capability and not row.runs_on(card.capability):
            yield no_kernels(state, card, severity)


def _releases(state: State) -> Iterator[Finding]:
    """The contracts' rules about TensorRT, asked for the cards that are here."""
    for name, package in state.software.packages.items():
        match = _PARTS.fullmatch(name)
        if match is None or match[2] or (name != match[1] and match[1] in state.software.packages):
            continue
        backend = match[1].replace("-", "_")
        for card in state.cards:
            here = Hardware(card.name, "nvidia", compute_capability=card.capability)
            for rule in check(Request(here, backend, package.version)):
                if rule.code != "R19" and card.capability:
                    # TensorRT-RTX builds without a card, for others: that this one is not among them is no fault.
                    severity = rule.severity if backend == "tensorrt" else WARNING
                    yield release_without_card(f"{rule.code}: {rule.message}", severity, f"GPU {card.index}")


def _libraries(state: State) -> Iterator[Finding]:
    if not state.cards:
        return
    for library in state.software.libraries:
        for name in library.missing:
            if name not in state.software.bundled:
                other = other_version(state, name)
                is_optional = name.startswith("libnvinfer") and not other
                yield library_missing(name, library.path, other, WARNING if is_optional else ERROR)


def other_version(state: State, name: str) -> str:
    """Another version of a library, with its place, when that is here."""
    stem = name.partition(".so.")[0]
    if stem == "libnvinfer":
        return ", ".join(f"{version} in {path}" for path, version in state.software.tensorrt.items())
    return ", ".join(sorted(one for one in state.software.bundled if one.startswith(f"{stem}.so.")))
