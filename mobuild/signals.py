"""What signals are called, for messages about processes that one ended."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # real-time signals have no names
