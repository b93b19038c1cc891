"""What a line that some program printed means: the faults that people meet, by the words they meet them in.

A message was met, so it is an error even where this machine shows nothing; what the machine knows (versions,
cards) goes into the finding. Sources of each row: the issues named in tests/doctor/test_messages.py. Lines that no row
explains are looked up among the remedies for what builders and runtimes say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from mobuild.doctor.checks import opening, place, software, versions
from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import State
from mobuild.remedies import REMEDIES, Remedy

Explanation = Callable[[State, "re.Match[str]"], Finding]


def explain(text: str, state: State) -> tuple[Finding, ...]:
    """One finding for each kind of message in `text`; a warning when there is none that is known."""
    found: dict[str, Finding] = {}
    spans = []
    for pattern, explanation in _MESSAGES:
        if match := pattern.search(text):
            finding = explanation(state, match)
            found.setdefault(finding.code, finding)
            spans.append(match.span())
    explained = {line for line in text.splitlines() for start, end in spans if text[start:end] in line}
    rest = [line for line in text.splitlines() if line not in explained]
    return (*found.values(), *_remedied(rest, state)) or (_unknown(text),)


def _remedied(lines: Sequence[str], state: State) -> Iterator[Finding]:
    """D91: what builders and runtimes say, one finding for each cause; where versions differ, with those here."""
    met: dict[Remedy, str] = {}
    for line in lines:
        if known := next((each for each in REMEDIES if re.search(each.pattern, line)), None):
            met.setdefault(known, _shown(line))
    for known, line in met.items():
        here = f"; here {software.tensorrt_here(state)}" if known.of_versions else ""
        why = f"{known.cause} (met in {known.reference})"
        severity = WARNING if known.is_harmless else ERROR
        yield Finding("D91", severity, "message", f"{line!r}{here}", why, known.fix)


def _shown(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _unknown(text: str) -> Finding:
    why = "doctor knows messages of drivers, CUDA, containers and TensorRT"
    found = f"nothing is known about {_shown(text)!r}"
    return Finding("D90", WARNING, "message", found, why, "give the first error of its log")


def _insufficient(state: State, match: re.Match[str]) -> Finding:
    """Which CUDA it was is not in the message: the newest of what is installed is the likely one."""
    cudas = [one.cuda for one in state.software.packages.values() if one.cuda]
    cudas += [one.version for one in state.cuda.runtimes]
    newest = max(cudas, key=lambda cuda: [int(part) for part in cuda.split(".")], default="")
    return versions.below_floor(state, newest)


def _capability(number: str) -> str:
    """SM 120 is compute capability 12.0."""
    return f"{number[:-1]}.{number[-1]}"


def _kernels(state: State, match: re.Match[str]) -> Finding:
    return software.no_kernels(state, state.cards[0] if state.cards else None)


def _library(state: State, match: re.Match[str]) -> Finding:
    if match[1] == "libcuda.so.1":
        return opening.no_library(state)
    return software.library_missing(match[1], other=software.other_version(state, match[1]))


_MESSAGES: tuple[tuple[re.Pattern[str], Explanation], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), explanation)
    for pattern, explanation in (
        (
            r"Driver/library version mismatch|returned 803\b|Error 803\b",
            lambda state, _: opening.versions_differ(state),
        ),
        (r"couldn't communicate with the NVIDIA driver", lambda state, _: opening.no_module(state)),
        (r"initialize NVML: Unknown Error", lambda state, _: opening.device_files(state)),
        (r"no CUDA-capable device is detected|No devices were found", lambda state, _: opening.no_device(state)),
        (r"Error 802\b|returned 802\b|system not yet initialized", lambda state, _: opening.no_fabric(state)),
        (
            r"returned 804\b|Error 804\b|forward compatibility was attempted",
            lambda state, _: opening.no_forward_compatibility(state),
        ),
        (r"returned 999\b|Error 999\b|CUDA_ERROR_UNKNOWN", lambda state, _: opening.does_not_open(state)),
        (r"driver version is insufficient|CUDA (?:failure|error):? 35\b|cudaErrorInsufficientDriver", _insufficient),
        (r"pthread_setaffinity_np failed", lambda state, _: place.few_processors(state)),
        (r"could not select device driver", lambda state, _: place.no_container_toolkit(state)),
        (r"no kernel image is available", _kernels),
        (
            r"GPU SM (\d+) is not supported",
            lambda state, match: software.unknown_to_tensorrt(state, _capability(match[1])),
        ),
        (r"(lib[\w+-]+\.so\.\d+)[\d.]*: cannot open shared object file", _library),
        (r"(?:Could not load library|Unable to load any of) \{?(lib[\w+-]+\.so\.\d+)", _library),
        (r"\bBus error\b|(?:out of|insufficient) shared memory", lambda state, _: place.little_shared(state)),
    )
)
