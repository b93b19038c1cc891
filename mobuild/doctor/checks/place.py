"""D30–D35: memory, processors and folders, and the container engine."""

from __future__ import annotations

from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import State

_GIB = 1 << 30
_SCARCE = 2 * _GIB  # less than a builder and one model need
_SHARED = 256 << 20  # container engines give 64 MiB


def place(state: State) -> tuple[Finding, ...]:
    return (*_memory(state), *_shared(state), *_processors(state), *_jit_cache(state), *_engine(state))


def no_container_toolkit(state: State, severity: str = ERROR) -> Finding:
    """Also what `could not select device driver "" with capabilities: [[gpu]]` means."""
    docker = state.place.docker
    if _is_snap(docker):
        what = f"docker is a snap package ({docker}), which does not see the container toolkit"
    elif docker and state.place.toolkit:
        what = f"the container toolkit is here ({state.place.toolkit}), and docker has not been told of it"
    elif docker:
        what = f"docker is here ({docker}) and NVIDIA's container toolkit is absent"
    else:
        what = "NVIDIA's container toolkit is absent where the container engine runs, or the engine is a snap package"
    return Finding(
        "D34",
        severity,
        "container engine",
        what,
        "the engine has no way to give a container the GPU. This is not a GPU fault: driver and card are not asked",
        "install nvidia-container-toolkit on the host; nvidia-ctk runtime configure --runtime=docker; "
        "systemctl restart docker\ninstead of the snap package take docker-ce from Docker's own repository",
    )


def few_processors(state: State) -> Finding:
    """Also what a failing `pthread_setaffinity_np` means."""
    here = state.place
    quota = f", for {here.quota:g} processors' worth of time" if here.quota else ""
    allowed = int(max(1, min(here.allowed, here.quota or here.allowed)))
    return Finding(
        "D32",
        WARNING,
        "processors",
        f"this process may run on {here.allowed} of {here.processors} processors (its CPU set){quota}",
        "runtimes that count the machine's processors start a thread for each, pin some outside of the set "
        "(pthread_setaffinity_np, error code: 22), and get slower by waiting for each other",
        f"set the thread count from the CPU set and the control group's quota: here {allowed} "
        f"(ONNX Runtime: intra_op_num_threads={allowed}; else OMP_NUM_THREADS={allowed})",
    )


def little_shared(state: State, severity: str = ERROR) -> Finding:
    """Also what a data loader means that is killed by signal: Bus error."""
    shared = state.place.shared
    return Finding(
        "D31",
        severity,
        "/dev/shm",
        f"{_size(shared[1])} free of {_size(shared[0])}" if shared else "its size is not known here",
        "data loaders, NCCL and warm workers exchange arrays there; a full one ends them with SIGBUS (Bus error)",
        "docker run --shm-size=1g, or --ipc=host; in Kubernetes an emptyDir with medium: Memory on /dev/shm",
    )


def _memory(state: State) -> tuple[Finding, ...]:
    here = state.place
    found = []
    limit = here.memory_limit
    left = max(0, limit - here.memory_used) if limit is not None else None
    if limit is not None and left is not None and left < _SCARCE:
        found.append(
            Finding(
                "D30",
                WARNING,
                "memory",
                f"{_size(left)} are left of the control group's limit of {_size(limit)}; the machine has "
                f"{_size(here.memory_total)}",
                "a build that needs more is killed without a word; exports and builders need several times the weights",
                "raise the limit (docker run --memory, resources.limits.memory), or build fewer nodes at once: "
                "executor.slots=1",
            )
        )
    if here.oom_kills:
        found.append(
            Finding(
                "D35",
                WARNING,
                "memory",
                f"the kernel has killed {here.oom_kills} processes of this control group for memory",
                f"the limit is {_size(limit) if limit is not None else 'that of the machine'}",
                "raise the limit, or build fewer nodes at once: executor.slots=1",
            )
        )
    return tuple(found)


def _shared(state: State) -> tuple[Finding, ...]:
    shared = state.place.shared
    return (little_shared(state, WARNING),) if shared is not None and shared[1] < _SHARED else ()


def _processors(state: State) -> tuple[Finding, ...]:
    here = state.place
    is_less = here.allowed < here.processors or (here.quota is not None and here.quota < here.allowed)
    return (few_processors(state),) if is_less else ()


def _jit_cache(state: State) -> tuple[Finding, ...]:
    here = state.place
    if not state.has_nvidia:
        return ()
    if here.jit_cache_off:
        found, fix = "CUDA_CACHE_DISABLE=1", "unset CUDA_CACHE_DISABLE"
    elif here.jit_cache_access == "denied":
        found = f"{here.jit_cache} cannot be written"
        fix = "CUDA_CACHE_PATH=<a folder that can be written>; in a container a volume, so that it stays"
    elif here.jit_cache_size >= 0.9 * here.jit_cache_limit:
        found = f"{here.jit_cache} has {_size(here.jit_cache_size)} of at most {_size(here.jit_cache_limit)}"
        fix = f"CUDA_CACHE_MAXSIZE={min(4 * _GIB, 4 * here.jit_cache_limit)} (4 GiB is the most), or empty the folder"
    else:
        return ()
    why = "what the driver compiles from PTX is compiled again in each process, which takes seconds to minutes"
    return (Finding("D33", WARNING, "JIT cache", found, why, fix),)


def _engine(state: State) -> tuple[Finding, ...]:
    here = state.place
    on_host = bool(here.docker) and not here.container and bool(state.driver.module or state.cards)
    if not on_host or (here.toolkit and not _is_snap(here.docker)):
        return ()
    return (no_container_toolkit(state, WARNING),)


def _is_snap(path: str) -> bool:
    return path.startswith("/snap/") or path.endswith("/snap")  # /snap/bin/docker is a link to the snap program


def _size(size_bytes: int) -> str:
    gib = size_bytes / _GIB
    return f"{gib:.1f} GiB" if gib >= 1 else f"{size_bytes >> 20} MiB"
