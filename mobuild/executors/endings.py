"""Says how a worker ended that left no result: killed, crashed, timed out, or gone without a word."""

from __future__ import annotations

import os
import signal

from mobuild.errors import NodeFailed
from mobuild.executors.memory import Memory
from mobuild.signals import signal_name


def killed(node: str, number: int, peak_rss_mib: float | None, before: Memory, after: Memory) -> NodeFailed:
    """The worker died of signal `number`; `before` and `after` are the control group's words."""
    if number == signal.SIGKILL:
        return _sigkill(node, peak_rss_mib, before, after)
    return NodeFailed(
        f"node {node!r}: killed by {signal_name(number)}{_peak(peak_rss_mib)}",
        "native code crashed; the end of the log says where"
        if number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
        else "another process sent the signal",
    )


def _sigkill(node: str, peak_rss_mib: float | None, before: Memory, after: Memory) -> NodeFailed:
    moved = after.oom_kills > before.oom_kills >= 0
    counter = "not kept here" if after.oom_kills < 0 else f"{before.oom_kills} → {after.oom_kills}"
    verdict = "out of memory" if moved else "likely out of memory" if after.oom_kills < 0 else "not for memory"
    return NodeFailed(
        f"node {node!r}: killed by SIGKILL, {verdict}{_peak(peak_rss_mib)}; "
        f"cgroup memory limit: {after.limit}; oom_kill: {counter}",
        _KILLED_BY_OTHERS
        if verdict == "not for memory"
        else "give the container or the job more memory, or the node less work (a smaller batch or workspace)",
    )


_KILLED_BY_OTHERS = "the kernel's counter did not move: a person, a scheduler or a memory watcher sent the signal"


def timed_out(node: str, timeout_seconds: float) -> NodeFailed:
    return NodeFailed(
        f"node {node!r}: still running after timeout_seconds={timeout_seconds:g}, so it was stopped",
        "raise timeout_seconds, or look at the log for what it waits for",
    )


def silent(node: str, code: int) -> NodeFailed:
    """The process ended by itself, but before the worker could write a result."""
    why = " (its code called os._exit()?)" if code == 0 else ""
    return NodeFailed(
        f"node {node!r}: the process ended with status {code} before it reported a result{why}",
        "the end of the log may say why",
    )


def cancelled(node: str) -> NodeFailed:
    return NodeFailed(f"node {node!r}: cancelled")


def status(wait_status: int) -> int:
    """Exit status, or minus the signal, of a status of `wait4`."""
    return os.waitstatus_to_exitcode(wait_status)


def _peak(peak_rss_mib: float | None) -> str:
    return "" if peak_rss_mib is None else f", peak memory {peak_rss_mib:.0f} MiB"
