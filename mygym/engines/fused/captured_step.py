"""A step of a simulation on a GPU as a CUDA graph.

A step consists of about 1,500 small operations. A GPU executes each in microseconds, less than Python needs to start
it; a graph starts all of them by a single call.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import torch
from torch.distributions import Distribution

from mygym.errors import ConfigError, bad_value
from mygym.types import Array

WARM_UP = 3
"""Steps before the capture, in which libraries allocate their memory and constants reach the GPU."""


class CaptureError(Exception):
    """A step cannot be captured; the message has the operation."""


class HasVariables(Protocol):
    """Object whose state is in arrays."""

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""

    def set_variables(self, arrays: Iterable[Array]) -> None:
        """Replace the arrays of `variables`."""


class CapturedStep:
    """A step, captured when this is made; each call repeats it.

    A graph reads and writes the same memory each time. The variables are therefore copied to its inputs, and become its
    outputs; the results are copies.

    Args:
        state: Object with the variables of the step, on a GPU, unchanged by the capture; None: no variables.
        step: Function that sets the variables and returns an array, or a dictionary or dataclass of such.
        inputs: Example of its arguments; their shapes and types are those of all calls.

    Raises:
        CaptureError: An operation of the step waits for the GPU, so it cannot be captured.
    """

    def __init__(self, state: HasVariables | None, step: Callable[..., Any], *inputs: torch.Tensor) -> None:
        self._state, self._graph = state or _Stateless(), torch.cuda.CUDAGraph()
        state = self._state
        before = state.variables()
        device = [*before, *inputs][0].device
        self._variables, self._inputs = [[array.clone() for array in arrays] for arrays in (before, inputs)]
        random_state = torch.cuda.get_rng_state(device)
        try:
            with without_validation():
                stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
                stream.wait_stream(torch.cuda.current_stream(device))
                with torch.cuda.stream(stream):
                    for _ in range(WARM_UP):
                        step(*self._inputs)
                    _check_waits(step, self._inputs)
                torch.cuda.current_stream(device).wait_stream(stream)
                state.set_variables(self._variables)
                try:
                    with torch.cuda.graph(self._graph, stream=stream):  # gradients belong to the stream of the warm-up
                        self._result = step(*self._inputs)
                except torch.OutOfMemoryError:
                    raise
                except RuntimeError as error:
                    raise CaptureError(_explain(error)) from error
                self._outputs = state.variables()
            # The warm-up must not advance the generator, else a resumed run would draw other numbers.
            torch.cuda.set_rng_state(random_state, device)
        finally:
            state.set_variables(before)

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Make a step; return its result."""
        for to, array in zip(self._variables + self._inputs, [*self._state.variables(), *inputs], strict=True):
            to.copy_(array)
        self._graph.replay()
        self._state.set_variables(self._outputs)
        return _copied(self._result)


def captured(state: HasVariables | None, step: Callable[..., Any], *inputs: torch.Tensor) -> Callable[..., Any]:
    """Return a `CapturedStep`, or, with a warning, the step itself if it cannot be captured."""
    try:
        return CapturedStep(state, step, *inputs)
    except CaptureError as error:
        warnings.warn(f"no CUDA graph, so steps are slow: {error}", stacklevel=2)
        return step


def capture_or_refuse(state: HasVariables | None, step: Callable[..., Any], *inputs: torch.Tensor) -> CapturedStep:
    """Return a `CapturedStep`.

    Raises:
        ConfigError: The step cannot be captured.
    """
    try:
        return CapturedStep(state, step, *inputs)
    except CaptureError as error:
        raise ConfigError(
            bad_value("device", "cuda", "cpu, or a task and networks of array code", str(error))
        ) from error


class _Stateless:
    """State without variables."""

    def variables(self) -> list[Array]:
        return []

    def set_variables(self, arrays: Iterable[Array]) -> None:
        pass


@contextmanager
def without_validation() -> Iterator[None]:
    """Let distributions of torch not validate their arguments, which is a wait for the GPU."""
    validate = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(validate)


def _check_waits(step: Callable[..., Any], inputs: Iterable[torch.Tensor]) -> None:
    """Make a step; a capture that fails would leave torch's generator of random numbers unusable.

    Raises:
        CaptureError: An operation waits for the GPU.
    """
    mode = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch: the mode does not detect all operations that wait
            torch.cuda.set_sync_debug_mode("error")
        step(*inputs)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise CaptureError(_explain(error)) from error
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def _explain(error: BaseException) -> str:
    """Return the first line of an error within a capture, and the place outside torch at which it was raised."""
    first = error.__context__ or error  # the end of a capture that has failed raises a second error
    frames = [frame for frame in traceback.extract_tb(first.__traceback__) if "/torch/" not in frame.filename]
    place = f", {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"an operation of a step waits for the GPU ({str(first).splitlines()[0]}{place})"


def _copied(values: Any) -> Any:
    """Return copies of all arrays."""
    if isinstance(values, dict):
        return {key: _copied(value) for key, value in values.items()}
    if is_dataclass(values) and not isinstance(values, type):
        return type(values)(**{field.name: _copied(getattr(values, field.name)) for field in fields(values)})
    return values.clone()
