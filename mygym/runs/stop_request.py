"""SIGINT (Ctrl-C) and SIGTERM: the first asks to stop where nothing is lost by it, the second stops at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While it is entered, signals set `received` in place of ending the process.

    Signals that the process was started to ignore (`nohup`, a shell's `&`) stay ignored, and outside the main thread,
    where Python allows no handlers, nothing changes.

    Args:
        when: When whoever asks `received` will stop, for people.
    """

    def __init__(self, when: str) -> None:
        self.when = when
        self.received: signal.Signals | None = None
        self.at_once = False
        """Whether a first signal, too, raises KeyboardInterrupt where it meets the program."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.received is not None
        self.received = signal.Signals(number)
        if again or self.at_once:
            raise KeyboardInterrupt
        said = f"\n{self.received.name}: stopping {self.when}; again: at once\n"
        with contextlib.suppress(OSError):  # nobody listens any more
            os.write(2, said.encode())  # `print` may be what the signal has interrupted
