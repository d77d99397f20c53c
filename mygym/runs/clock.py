"""Clock of a run that continues when the run is resumed in another process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class RunClock:
    """Measures a run's wall time and learning time, including the time before the checkpoint of a resumed run.

    Args:
        started: `time.perf_counter()` when this process began the run.
        before: Seconds `run` and `learning` of the checkpoint that the run resumes from.
    """

    def __init__(self, started: float, before: Mapping[str, float] | None = None) -> None:
        before = before or {"run": 0.0, "learning": 0.0}
        self._started = started - before["run"]
        self._learning_before = before["learning"]
        self._learning_since: float | None = None

    def elapsed(self) -> float:
        """Return the seconds that the run has taken."""
        return time.perf_counter() - self._started

    def learning(self) -> float:
        """Return the seconds spent in `learn`."""
        since = 0.0 if self._learning_since is None else time.perf_counter() - self._learning_since
        return self._learning_before + since

    @contextmanager
    def measure_learning(self) -> Iterator[None]:
        """Count the time of the block as learning time."""
        self._learning_since = time.perf_counter()
        try:
            yield
        finally:
            self._learning_before, self._learning_since = self.learning(), None
