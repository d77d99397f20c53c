"""Handling of Ctrl-C, SIGTERM and SIGHUP: the first signal requests a stop, the second stops immediately.

A process of Windows gets SIGBREAK in place of SIGTERM, which would end it at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))

SEPARATE: Mapping[str, Any] = {"start_new_session": True} if hasattr(os, "setsid") else {"creationflags": 0x200}
"""Arguments of `Popen` for a process that Ctrl-C does not reach; `subprocess.CREATE_NEW_PROCESS_GROUP` on Windows."""


def ignore_signals() -> None:
    """Ignore the signals in this process from now on."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def request_stop(process: Any) -> None:
    """Request that a run stops with a checkpoint; its process was started with the arguments `SEPARATE`."""
    process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


class StopRequest:
    """Context manager in which signals set `received` instead of ending the process.

    Signals that the process has ignored since its start (`nohup`, a shell's `&`) stay ignored. Outside the main thread,
    the context manager does nothing, because Python allows no signal handlers there.

    A program may enter a `StopRequest` for all of its work, and others within it: after an inner request, the program
    is ending, and the outer request ignores further signals.

    Args:
        when: When the program will stop, for the message.
        immediate: Whether the first signal already raises KeyboardInterrupt.
    """

    def __init__(self, when: str = "", immediate: bool = False) -> None:
        self.when = when
        self.immediate = immediate
        self.received: signal.Signals | None = None
        self.ending = False
        """Whether further signals are ignored, so that none interrupts the last writes."""
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, StopRequest) and self.received:
                outer.received, outer.ending = self.received, True
            signal.signal(number, handler)
        self._previous.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.ending:
            return
        repeated = self.received is not None
        self.received = signal.Signals(number)
        if repeated or self.immediate:
            raise KeyboardInterrupt
        message = f"\n{self.received.name}: stopping {self.when}; again: at once\n"
        with contextlib.suppress(OSError):  # stderr is closed
            os.write(2, message.encode())  # the signal may have interrupted `print`
