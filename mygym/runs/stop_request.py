"""Handling of SIGINT (Ctrl-C) and SIGTERM: the first signal requests a stop, the second stops immediately."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Context manager in which signals set `received` instead of ending the process.

    Signals that the process has ignored since its start (`nohup`, a shell's `&`) stay ignored. Outside the main thread,
    the context manager does nothing, because Python allows no signal handlers there.

    Args:
        when: When the program will stop, for the message.
    """

    def __init__(self, when: str) -> None:
        self.when = when
        self.received: signal.Signals | None = None
        self.immediate = False
        """Whether the first signal already raises KeyboardInterrupt."""
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
            signal.signal(number, handler)
        self._previous.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        repeated = self.received is not None
        self.received = signal.Signals(number)
        if repeated or self.immediate:
            raise KeyboardInterrupt
        message = f"\n{self.received.name}: stopping {self.when}; again: at once\n"
        with contextlib.suppress(OSError):  # stderr is closed
            os.write(2, message.encode())  # the signal may have interrupted `print`
