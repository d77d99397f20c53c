"""`Check`, `Outcome`, the suites of all kinds, and the loop that performs the checks of a suite."""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.errors import ConfigError, InterruptedRunError, MygymError, bad_value
from mygym.registry import Entry, registry, resolve
from mygym.registry.entries import unknown_framework

PASSED, FAILED, LEFT_OUT = "passed", "failed", "left out"

LEARNS = "learns"
"""Name of the check of algorithms that compares the learning of `reach` with the parent's, which takes minutes."""


class CheckFailed(Exception):  # noqa: N818  (the check has worked)
    """Raised by a check; the message is the finding."""


class CheckLeftOut(Exception):  # noqa: N818  (the check does not apply)
    """Raised by a check that does not apply to the component; the message is the reason."""


@dataclass(frozen=True)
class Check:
    """A property of a component."""

    name: str
    run: Callable[[], str | None]
    """Raises `CheckFailed` or any other exception if the property does not hold; may return a note for the report."""
    needs: tuple[str, ...] = ()
    """Checks that must have passed; otherwise this check is left out."""


@dataclass(frozen=True)
class Outcome:
    """Result of a check."""

    kind: str
    name: str
    """Name of the component."""
    check: str
    status: str
    """`passed`, `failed` or `left out`."""
    seconds: float
    why: str = ""
    """The finding, with file and line if they are known; the note of a check that passed."""

    @property
    def failed(self) -> bool:
        """Whether the check failed."""
        return self.status == FAILED


def demand(condition: object, message: str) -> None:
    """Raise `CheckFailed` with a message unless a condition holds."""
    if not condition:
        raise CheckFailed(message)


def perform(entry: Entry, checks: Iterable[Check], skip: Collection[str] = ()) -> Iterator[Outcome]:
    """Perform checks one after the other.

    Raises:
        ConfigError: A name in `skip` is none of the checks.
        KeyboardInterrupt: The user has pressed Ctrl-C.
    """
    passed: set[str] = set()
    if skip:
        checks = list(checks)
        for name in skip:
            if name not in (names := [check.name for check in checks]):
                raise ConfigError(bad_value("skip", name, names, f"is not a check of {entry.name}"))
    for check in checks:
        begin, seconds = time.perf_counter(), 0.0
        if check.name in skip:
            status, why = LEFT_OUT, "skipped"
        elif missing := [name for name in check.needs if name not in passed]:
            status, why = LEFT_OUT, f"needs: {missing[0]}"
        else:
            status, why = _perform(check, entry.origin)
            seconds = time.perf_counter() - begin
        if status == PASSED:
            passed.add(check.name)
        yield Outcome(entry.kind, entry.name, check.name, status, seconds, why)


def _perform(check: Check, origin: str) -> tuple[str, str]:
    """Return the status of a check, and its finding or note."""
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            return PASSED, check.run() or ""
    except CheckLeftOut as reason:
        return LEFT_OUT, str(reason)
    except InterruptedRunError:  # Ctrl-C during a training
        raise KeyboardInterrupt from None
    except Exception as error:  # noqa: BLE001  (any error of the component is the finding)
        notes = [line for line in stderr.getvalue().splitlines() if line.startswith("note: ")]
        return FAILED, "; ".join(dict.fromkeys([_describe(error, origin), *notes]))


def _describe(error: Exception, origin: str) -> str:
    """Return the message of an error with file and line, in the component's file if the traceback has it."""
    text = " ".join(str(error).split())
    if isinstance(error, CheckFailed):
        return text
    cause: BaseException = error
    while isinstance(cause, MygymError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, MygymError):
        return text
    frames = traceback.extract_tb(cause.__traceback__)
    in_component = [frame for frame in frames if frame.filename in (origin.rpartition(":")[0], origin)]
    frame = (in_component or frames)[-1]
    message = text if isinstance(error, MygymError) else f"{type(error).__name__}: {text}"
    return f"{message} ({Path(frame.filename)}:{frame.lineno})"


SUITES: Mapping[str, str] = {
    "algorithm": "mygym.checks.algorithms:algorithm_checks",
    "policy": "mygym.checks.algorithms:policy_checks",
    "strategy": "mygym.checks.algorithms:strategy_checks",
    "sampler": "mygym.checks.algorithms:sampler_checks",
    "callback": "mygym.checks.algorithms:callback_checks",
    "task": "mygym.checks.tasks:task_checks",
    "stage": "mygym.checks.stages:stage_checks",
    "predicate": "mygym.checks.functions:predicate_checks",
    "reward": "mygym.checks.functions:reward_checks",
    "observation": "mygym.checks.functions:observation_checks",
    "robot": "mygym.checks.robots:robot_checks",
    "controller": "mygym.checks.robots:controller_checks",
    "workspace": "mygym.checks.scenes:workspace_checks",
    "object": "mygym.checks.scenes:object_checks",
}
"""Kind of component → import string of the function that yields its checks, so that listing the kinds imports none."""

TRAINED = {"algorithm": 2_000, "policy": 500, "strategy": 2_000, "sampler": 500, "callback": 500}
"""Kind whose suite trains → env steps of each training by default."""


def check(
    kind: str,
    name: str,
    framework: str = "pytorch",
    steps: int | None = None,
    config: Mapping[str, Any] | None = None,
    robot: str | None = None,
    skip: Collection[str] = (),
) -> Iterator[Outcome]:
    """Check a component; all files are written to a temporary folder, which is removed.

    Args:
        kind: A kind of `SUITES`.
        name: Name of the component.
        framework: Framework of an algorithm, of a policy that is trained, or of the algorithm that a strategy trains.
        steps: Env steps of each training; None: the default of the suite.
        config: Further config values of the runs, e.g. `{"algo_params": {"batch_size": 32}}`.
        robot: Robot for the checks of a workspace; None: all robots that are at home in it.
        skip: Names of checks to leave out, e.g. `learns`.

    Returns:
        The outcome of each check, as soon as it is known.

    Raises:
        ConfigError: A name in `skip` is none of the checks.
        RegistryError: The component does not exist, or not in this framework.
    """
    entry = registry(kind).get(name, "algo" if kind == "algorithm" else kind)
    checks = resolve(SUITES[kind])
    if kind == "workspace":
        arm = None if robot is None else registry("robot").get(robot, "--robot").name
        return perform(entry, checks(entry.name, arm), skip)
    if kind not in TRAINED:
        return perform(entry, checks(entry.name), skip)
    if entry.frameworks and framework not in entry.frameworks:
        raise unknown_framework(framework, dict.fromkeys(entry.frameworks), f"{kind} {name!r}")
    steps = steps or TRAINED[kind]
    return _train(entry, lambda folder: checks(entry.name, framework, steps, folder, config or {}), skip)


def _train(entry: Entry, checks: Callable[[Path], Iterable[Check]], skip: Collection[str]) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(prefix="mygym-check-") as folder:
        yield from perform(entry, checks(Path(folder)), skip)
