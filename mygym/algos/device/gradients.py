"""Gradients as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from mygym.fused.captured_step import CapturedStep, capture_or_refuse


class CapturedGradient:
    """A function that sets the gradients of parameters; on a GPU, it is captured as a CUDA graph.

    The optimisers are not part of the graph, so their states are those of SB3.

    Args:
        compute: Function that sets the gradients and returns a tensor; it waits for nothing. Its arguments are tensors
            and dictionaries of tensors. A number that changes in training must be in one: the graph keeps others.
        model: The algorithm.
    """

    def __init__(self, compute: Callable[..., torch.Tensor], model: Any) -> None:
        self._compute, self._model = compute, model
        self._graph: CapturedStep | None = None
        self._gradients: list[torch.Tensor | None] = []
        """Gradients to which the graph writes."""
        self._constants: tuple[Any, ...] = ()

    def __call__(
        self, parameters: Sequence[torch.nn.Parameter], constants: tuple[Any, ...], *inputs: Any
    ) -> torch.Tensor:
        """Set the gradients; return the result of the function.

        Args:
            parameters: Parameters whose gradients are set.
            constants: Values on which the function depends: if one changes, the function is captured again.
            inputs: Arguments of the function.
        """
        if self._model.device.type != "cuda":
            return self._compute(*inputs)
        keys = [list(each) if isinstance(each, dict) else None for each in inputs]
        arrays = [array for each in inputs for array in (each.values() if isinstance(each, dict) else [each])]
        constants = *constants, keys, [array.shape for array in arrays]
        if self._graph is None or constants != self._constants:

            def compute(*flat: torch.Tensor) -> torch.Tensor:
                return self._compute(*_nested(flat, keys))

            buffers = list(self._model.policy.buffers())
            before = [buffer.clone() for buffer in buffers]
            self._constants, self._graph = constants, capture_or_refuse(None, compute, *arrays)
            for buffer, values in zip(buffers, before, strict=True):
                buffer.copy_(values)  # running statistics, which the warm-up has updated
            self._gradients = [parameter.grad for parameter in parameters]
        result: torch.Tensor = self._graph(*arrays)
        for parameter, gradient in zip(parameters, self._gradients, strict=True):
            parameter.grad = gradient  # another loss, e.g. of a callback, may have removed it
        return result


def memory_of(model: Any) -> list[int]:
    """Return the addresses of the tensors of an algorithm that graphs read: a callback may replace one."""
    coefficients = [getattr(model, name, None) for name in ("log_ent_coef", "ent_coef_tensor")]
    tensors = [*model.policy.parameters(), *model.policy.buffers(), *coefficients]
    return [tensor.data_ptr() for tensor in tensors if tensor is not None]


def trainable(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return the parameters of a network that are trained."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def set_gradients(loss: torch.Tensor, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Set the gradients of a loss; a parameter on which it does not depend has none."""
    for parameter in parameters:
        parameter.grad = None
    torch.autograd.backward(loss, inputs=list(parameters))


def clip_gradients(parameters: Iterable[torch.nn.Parameter], max_norm: torch.Tensor) -> None:
    """Scale gradients to a norm of at most `max_norm`, as torch's `clip_grad_norm_` does with a number."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]).norm()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)


def _nested(arrays: Iterable[torch.Tensor], keys: Sequence[list[str] | None]) -> list[Any]:
    """Return arrays in sequence; None in `keys` is an array, a list the keys of a dictionary of arrays."""
    rest = iter(arrays)
    return [next(rest) if names is None else {name: next(rest) for name in names} for names in keys]
