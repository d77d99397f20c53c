"""Training of a network on recorded images: its new file, its progress, and its interruption."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from mygym.demonstrations.collection import progress_bar
from mygym.errors import ConfigError, bad_value
from mygym.runs import files
from mygym.runs.stop_request import StopRequest

SUFFIX = ".safetensors"


def checked_file(out: str | Path) -> Path:
    """Return the path of the new file of a network.

    Raises:
        ConfigError: It has another suffix, exists, or cannot be written.
    """
    path = Path(out).expanduser()
    if path.suffix != SUFFIX:
        raise ConfigError(bad_value("out", str(out), f"a new file NAME{SUFFIX}"))
    files.check_new(path, "out", "a file")
    return path


@contextlib.contextmanager
def progress(steps: int, report: Callable[[str], None]) -> Iterator[Callable[[int, float, float | None], None]]:
    """Show a progress bar; yield the function that `mygym.perception.fitting.fit` calls after each step.

    Args:
        steps: Number of steps.
        report: Called with a line after each validation.

    Raises:
        KeyboardInterrupt: A signal has requested a stop.
    """
    with progress_bar(steps, "step") as bar, StopRequest("after this step") as stop:

        def after_step(step: int, loss: float, error: float | None) -> None:
            bar.update()
            if error is not None:
                report(f"{step:7,} steps   loss {loss:.3f}   on val {error:.3f}")
            if stop.received:
                raise KeyboardInterrupt

        yield after_step
