"""The console script: the repeated answer where there was nothing to do, else `dispatch`.

Keeps its own imports to `os` and `sys`, since this module is on the path of every no-op.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The console script: run and exit with the status."""
    _end_as_interrupted()
    status = run(sys.argv[1:])
    if "mobuild.dispatch" not in sys.modules:
        os._exit(status)  # all is written; the interpreter would take as long to tidy up as the answer took
    sys.exit(status)


def _end_as_interrupted() -> None:
    """Treat a polite kill and a closed terminal like Ctrl-C, so that no process of a node is left behind.

    A signal that the caller ignores (`nohup`) stays ignored; after the first of them, all are: who is impatient and
    presses Ctrl-C again shall not interrupt what ends the nodes, nor the programs that it starts for that.
    """
    import _signal as signal  # type: ignore[import-not-found]  # the module `signal` would build enumerations first

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)


def run(argv: list[str]) -> int:
    """Run one command line; returns 0 done, 1 failed, 2 not understood, 130 interrupted."""
    from mobuild import streams

    status, guard = 1, streams.Guard()
    try:
        status = _run(argv)
    finally:
        status = guard.end(status)
    return status


def _run(argv: list[str]) -> int:
    if "--version" in argv or argv == ["-V"]:
        import mobuild

        print(f"mobuild {mobuild.__version__}")
        return 0
    from mobuild import noop

    status = noop.replay(argv)
    if status is not None:
        return status
    from mobuild import answers, collector

    collector.relax()
    status, answers.recorder = 1, answers.Recorder(argv)
    try:
        from mobuild.dispatch import dispatch

        status = dispatch(argv)
        return status
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, and the next run goes on from there", file=sys.stderr)
        return 130
    finally:
        answers.recorder.end(status)
