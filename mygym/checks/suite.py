"""What a check is, and how a suite of them is performed."""

from __future__ import annotations

import contextlib
import io
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mygym.errors import InterruptedRunError, MygymError
from mygym.registry import Entry

PASSED, FAILED, LEFT_OUT = "passed", "failed", "left out"


class CheckFailed(Exception):  # noqa: N818  (the check has worked)
    """What was checked is not so; the text says what is."""


@dataclass(frozen=True)
class Check:
    """One property of a component."""

    name: str
    run: Callable[[], str | None]
    """Raises `CheckFailed`, or whatever the component raises, where it does not hold; may return what it found."""
    needs: tuple[str, ...] = ()
    """Checks without which this one would say nothing: it is left out if one of them has not passed."""


@dataclass(frozen=True)
class Outcome:
    """How a check ended."""

    kind: str
    name: str
    """Of the component."""
    check: str
    status: str
    """`passed`, `failed` or `left out`."""
    seconds: float
    why: str = ""
    """What is wrong, with file and line where they are known; of a check that passed, what it found."""

    @property
    def failed(self) -> bool:
        """Whether the component has to be mended."""
        return self.status == FAILED


def demand(holds: object, why: str) -> None:
    """Raise unless something holds.

    Raises:
        CheckFailed: It does not.
    """
    if not holds:
        raise CheckFailed(why)


def perform(entry: Entry, checks: Iterable[Check]) -> Iterator[Outcome]:
    """Perform checks in turn.

    Raises:
        KeyboardInterrupt: The user has had enough.
    """
    passed: set[str] = set()
    for check in checks:
        missing = next((name for name in check.needs if name not in passed), None)
        if missing is not None:
            yield Outcome(entry.kind, entry.name, check.name, LEFT_OUT, 0.0, f"needs: {missing}")
            continue
        begin = time.perf_counter()
        said = io.StringIO()
        why = found = None
        try:
            with contextlib.redirect_stderr(said):
                found = check.run()
        except InterruptedRunError:  # Ctrl-C within a training
            raise KeyboardInterrupt from None
        except Exception as error:  # noqa: BLE001  (whatever the component raises is the result)
            notes = [line for line in said.getvalue().splitlines() if line.startswith("note: ")]
            why = "; ".join(dict.fromkeys([_in_words(error, entry.origin), *notes]))
        else:
            passed.add(check.name)
        seconds = time.perf_counter() - begin
        status, words = (PASSED, found) if why is None else (FAILED, why)
        yield Outcome(entry.kind, entry.name, check.name, status, seconds, words or "")


def _in_words(error: Exception, origin: str) -> str:
    """What an error says and where it came from: in the component's own file, if that is on the way."""
    text = " ".join(str(error).split())
    if isinstance(error, CheckFailed):
        return text
    cause: BaseException = error
    while isinstance(cause, MygymError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, MygymError):
        return text
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if frame.filename == origin.rpartition(":")[0] or frame.filename == origin]
    frame = (own or frames)[-1]
    said = text if isinstance(error, MygymError) else f"{type(error).__name__}: {text}"
    return f"{said} ({Path(frame.filename)}:{frame.lineno})"
