"""Gradients as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from mygym.fused.captured_step import CapturedStep, capture_or_refuse


class Gradient:
    """A function that sets the gradients of parameters; on a GPU, it is captured as a CUDA graph.

    The optimisers are not part of the graph, so their states are those of SB3.

    Args:
        compute: Function that sets the gradients and returns a tensor of figures; it waits for nothing. Its arguments
            are tensors and dictionaries of tensors.
        device: Device of the parameters.
    """

    def __init__(self, compute: Callable[..., torch.Tensor], device: torch.device) -> None:
        self._compute, self._device = compute, device
        self._graph: CapturedStep | None = None
        self._gradients: list[torch.Tensor | None] = []
        """Gradients to which the graph writes."""
        self._constants: tuple[Any, ...] = ()

    def __call__(
        self, parameters: Sequence[torch.nn.Parameter], constants: tuple[Any, ...], *inputs: Any
    ) -> torch.Tensor:
        """Set the gradients; return the figures.

        Args:
            parameters: Parameters whose gradients are set.
            constants: Values on which the function depends: if one changes, the function is captured again.
            inputs: Arguments of the function.
        """
        if self._device.type != "cuda":
            return self._compute(*inputs)
        keys = [list(each) if isinstance(each, dict) else None for each in inputs]
        arrays = [array for each in inputs for array in (each.values() if isinstance(each, dict) else [each])]
        places = [parameter.data_ptr() for parameter in parameters]
        constants = *constants, keys, places, [array.shape for array in arrays]
        if self._graph is None or constants != self._constants:

            def compute(*flat: torch.Tensor) -> torch.Tensor:
                return self._compute(*_nested(flat, keys))

            self._constants, self._graph = constants, capture_or_refuse(None, compute, *arrays)
            self._gradients = [parameter.grad for parameter in parameters]
        figures: torch.Tensor = self._graph(*arrays)
        for parameter, gradient in zip(parameters, self._gradients, strict=True):
            parameter.grad = gradient  # another loss, e.g. of a callback, may have removed it
        return figures


def trained(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return the parameters of a network that are trained."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def set_gradients(loss: torch.Tensor, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Set the gradients of a loss; a parameter on which it does not depend has none."""
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _nested(arrays: Iterable[torch.Tensor], keys: Sequence[list[str] | None]) -> list[Any]:
    """Return arrays in sequence; None in `keys` is an array, a list the keys of a dictionary of arrays."""
    rest = iter(arrays)
    return [next(rest) if names is None else {name: next(rest) for name in names} for names in keys]
