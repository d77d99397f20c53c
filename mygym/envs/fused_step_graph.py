"""A control step of the fused engine as a CUDA graph.

A step consists of a thousand small operations. A GPU executes each in microseconds, less than Python needs to start
it; a graph starts all of them by one call.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch

from mygym.types import Array

if TYPE_CHECKING:
    from mygym.envs.fused_envs import BatchStep, FusedEnvs

WARM_UP = 3
"""Steps before the capture, in which libraries allocate their memory and constants reach the GPU."""


class StepGraph:
    """The step of a batch of environments, captured at its first control step.

    A graph reads and writes the same memory each time. The arrays of the environments are therefore copied to its
    inputs, and become its outputs; the arrays that it returns are copies.

    Args:
        envs: The environments, on a GPU; unchanged by the capture.
        commands: `(N, A)` float32, actions of a step.

    Raises:
        RuntimeError: An operation of the step waits for the GPU, so it cannot be captured.
    """

    def __init__(self, envs: FusedEnvs, commands: torch.Tensor) -> None:
        self._envs, self._graph = envs, torch.cuda.CUDAGraph()
        before, state = envs.variables(), envs.episodes.state
        self._inputs = [array.clone() for array in before]
        self._commands = commands.clone()
        try:
            stream, current = torch.cuda.Stream(commands.device), torch.cuda.current_stream(commands.device)
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    envs.advance(self._commands)
            current.wait_stream(stream)
            envs.set_variables(self._inputs)
            with torch.cuda.graph(self._graph):
                self._step = envs.advance(self._commands)
            self._outputs, self._state = envs.variables(), envs.episodes.state
        finally:
            envs.set_variables(before)
            envs.episodes.state = state

    def __call__(self, commands: Array) -> BatchStep:
        """Advance all environments by a control step with actions `(N, A)` float32."""
        for to, array in zip(self._inputs, self._envs.variables(), strict=True):
            to.copy_(array)
        self._commands.copy_(commands)
        self._graph.replay()
        self._envs.set_variables(self._outputs)
        self._envs.episodes.state = self._state
        step = self._step
        return type(step)(**{field.name: _copied(getattr(step, field.name)) for field in fields(step)})


def _copied(values: Any) -> Any:
    """Return a copy of an array, or of a dictionary of arrays."""
    return {key: array.clone() for key, array in values.items()} if isinstance(values, dict) else values.clone()
